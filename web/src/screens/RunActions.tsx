import { post } from "../api/client";
import type { RunDetail } from "../api/types";
import { openQuestion } from "../state/questions";
import { needsResume, rootOf } from "../state/format";
import { isDecision } from "../questions/kinds";
import { ScopedButton } from "../ui/ScopedButton";
import { ErrorNotice } from "../ui/Notes";
import { useAction } from "./useAction";

export function RunActions({ detail }: { detail: RunDetail }) {
  const { error, send } = useAction();
  const isOver = detail.status !== "running" && detail.status !== "paused";
  const cancel = () => send(() => post(`/v1/runs/${encodeURIComponent(detail.id)}/cancel`, {}));
  if (isOver && !error) return null;
  return (
    <div className="actions">
      {detail.questions.map((question) => (
        <ScopedButton needs="answer" key={question.key} className="primary" onClick={() => openQuestion(question)}>
          {isDecision(question) ? "Review" : "Answer"} <bdi>{question.agent}</bdi>
        </ScopedButton>
      ))}
      {!isOver && (
        <ScopedButton needs="run" className="danger" onClick={() => void cancel()}>
          Cancel run
        </ScopedButton>
      )}
      {detail.status === "paused" && needsResume(detail.reason) && (
        <p className="quiet">
          {detail.reason === "parked"
            ? "Parked: the process that ran it was stopped. "
            : "Set aside: the server that found it cannot run it. "}
          <code>interlock resume {rootOf(detail.id)}</code> continues it.
        </p>
      )}
      {error && <ErrorNotice error={error} />}
    </div>
  );
}
