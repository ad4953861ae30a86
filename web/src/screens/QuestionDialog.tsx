import { useEffect, useRef, useState } from "react";
import { post, Refused, wordsOf } from "../api/client";
import type { Question, RunDetail } from "../api/types";
import { answered, asked, inbox, postponed, refreshInbox } from "../state/questions";
import { useStore } from "../state/store";
import { Act } from "../ui/Act";
import { Said } from "../ui/Said";
import { sendByKeys } from "../ui/sendByKeys";

/** Opens when an agent asks; a native dialog holds the focus and gives it back. */
export function QuestionDialog() {
  const question = useStore(asked);
  return question && <Asking key={question.id} question={question} />;
}

const drafts = new Map<string, string>();

function Asking({ question }: { question: Question }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [answer, setAnswer] = useState(drafts.get(question.id) ?? "");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const { questions, isKnown } = useStore(inbox);
  const isOpen = !isKnown || questions.some((each) => each.id === question.id);

  useEffect(() => {
    dialog.current?.showModal();
  }, []);

  const send = async (text: string): Promise<void> => {
    setBusy(true);
    try {
      await post<RunDetail>(`/v1/questions/${encodeURIComponent(question.id)}/answer`, { answer: text });
      drafts.delete(question.id);
      dialog.current?.close(); // which gives the focus back at once, and tells of it later
      answered();
    } catch (refused) {
      setError(told(refused));
      setBusy(false);
    }
    void refreshInbox();
  };

  return (
    <dialog ref={dialog} className="asking" aria-labelledby="asking-title" onClose={() => asked.get() === question && postponed()}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void send(answer);
        }}
      >
        <h2 id="asking-title">
          <bdi>{question.agent}</bdi> of <bdi>{question.crew}</bdi> asks
        </h2>
        <div className="asking-question">
          <Said text={question.question} empty="It waits for you without a question." />
          {question.context && <p className="quiet" dir="auto">Context: <bdi>{question.context}</bdi></p>}
        </div>
        {question.choices.length > 0 && (
          <div className="choices actions" role="group" aria-label="Choices">
            {question.choices.map((choice) => (
              <Act needs="answer" key={choice} disabled={isBusy || !isOpen} onClick={() => void send(choice)}>
                <bdi>{choice}</bdi>
              </Act>
            ))}
          </div>
        )}
        <label htmlFor="answer">Your answer</label>
        {question.expects && !question.choices.length && (
          <p className="quiet" id="answer-form">
            Answer with <bdi>{question.expects}</bdi>
          </p>
        )}
        <textarea
          id="answer"
          rows={4}
          autoFocus
          value={answer}
          disabled={isBusy || !isOpen}
          aria-invalid={Boolean(error)}
          aria-describedby="answer-form answer-error"
          onChange={(event) => {
            setAnswer(event.target.value);
            drafts.set(question.id, event.target.value);
          }}
          onKeyDown={sendByKeys}
        />
        {!isOpen && !error && !isBusy && (
          <p className="failed" role="alert">
            This was answered elsewhere, or the run is over.
          </p>
        )}
        {error && (
          <p className="failed" role="alert" id="answer-error">
            {error}
          </p>
        )}
        <div className="actions">
          <Act needs="answer" type="submit" className="primary" disabled={isBusy || !isOpen}>
            Answer
          </Act>
          {shortAnswers(question.reason).map(([words, text]) => (
            <Act needs="answer" key={text} disabled={isBusy || !isOpen} onClick={() => void send(text)}>
              {words}
            </Act>
          ))}
          <button type="button" onClick={() => dialog.current?.close()}>
            Later
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Where the engine knows certain words, they are buttons. */
function shortAnswers(reason: string): readonly (readonly [string, string])[] {
  if (reason.startsWith("held:") || reason === "approval") return [["Approve", "yes"], ["Refuse", "no"]];
  if (reason === "tool_unknown_outcome") return [["Call the tool again", "retry"], ["Give up", "fail"]];
  return [];
}

function told(error: unknown): string {
  const isSecond = error instanceof Refused && (error.code === "already-resumed" || error.code === "not-waiting");
  return isSecond ? `Somebody has answered this already: ${wordsOf(error)}` : wordsOf(error);
}
