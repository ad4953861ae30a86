import { post } from "../api/client";
import type { RunDetail } from "../api/types";
import { openQuestion } from "../state/questions";
import { isResting, rootOf } from "../state/words";
import { isDecision } from "../questions/kinds";
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
        <Act needs="answer" key={question.key} className="primary" onClick={() => openQuestion(question)}>
          {isDecision(question) ? "Review" : "Answer"} <bdi>{question.agent}</bdi>
        </Act>
      ))}
      {!isOver && (
        <Act needs="run" className="danger" onClick={() => void cancel()}>
          Cancel the run
        </Act>
      )}
      {detail.status === "paused" && isResting(detail.reason) && (
        <p className="quiet">
          {detail.reason === "parked"
            ? "Parked: the process that ran it was stopped. "
            : "Set aside: the process that found it cannot run it. "}
          <code>interlock resume {rootOf(detail.id)}</code> continues it.
        </p>
      )}
      {error && <Failed error={error} />}
    </div>
  );
}
