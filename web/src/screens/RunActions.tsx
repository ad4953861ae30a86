import { useState } from "react";
import { post, wordsOf } from "../api/client";
import type { RunDetail } from "../api/types";
import { asked } from "../state/questions";

export function RunActions({ detail }: { detail: RunDetail }) {
  const [error, setError] = useState("");
  const isOver = detail.status !== "running" && detail.status !== "paused";
  const cancel = async (): Promise<void> => {
    try {
      await post(`/v1/runs/${encodeURIComponent(detail.id)}/cancel`, {});
      setError("");
    } catch (refused) {
      setError(wordsOf(refused));
    }
  };
  if (isOver && !error) return null;
  return (
    <div className="actions">
      {detail.questions.map((question) => (
        <button key={question.id} type="button" className="primary" onClick={() => asked.set(question)}>
          Answer {question.agent}
        </button>
      ))}
      {!isOver && (
        <button type="button" className="danger" onClick={() => void cancel()}>
          Cancel the run
        </button>
      )}
      {error && (
        <p className="failed" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}
