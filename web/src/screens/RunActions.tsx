import { post } from "../api/client";
import type { RunDetail } from "../api/types";
import { asked } from "../state/questions";
import { Act } from "../ui/Act";
import { Failed } from "../ui/Notes";
import { useSending } from "./useSending";

export function RunActions({ detail }: { detail: RunDetail }) {
  const { error, send } = useSending();
  const isOver = detail.status !== "running" && detail.status !== "paused";
  const cancel = () => send(() => post(`/v1/runs/${encodeURIComponent(detail.id)}/cancel`, {}));
  if (isOver && !error) return null;
  return (
    <div className="actions">
      {detail.questions.map((question) => (
        <Act needs="answer" key={question.id} className="primary" onClick={() => asked.set(question)}>
          Answer <bdi>{question.agent}</bdi>
        </Act>
      ))}
      {!isOver && (
        <Act needs="run" className="danger" onClick={() => void cancel()}>
          Cancel the run
        </Act>
      )}
      {error && <Failed error={error} />}
    </div>
  );
}
