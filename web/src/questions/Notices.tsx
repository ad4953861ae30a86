import { useLayoutEffect, useRef } from "react";
import type { Question } from "../api/types";
import { announced, dismissNotice, inbox, opened, openQuestion } from "../state/questions";
import { placeOf } from "../state/router";
import { useStore } from "../state/store";
import { plural } from "../state/words";
import { Brief } from "../ui/Said";
import { Asker } from "./Asker";
import { isDecision, kindOf, plainQuestion } from "./kinds";
import { QuestionTimes } from "./QuestionFacts";

const SHOWN_MAX = 2;

/** What came while somebody does something else. It takes no focus, and nothing on it is an answer. Only who asks is read out: times change. */
export function Notices() {
  const keys = useStore(announced);
  const { questions } = useStore(inbox);
  const open = useStore(opened);
  const box = useRef<HTMLElement>(null);
  const hadFocus = useRef(false);
  const news = keys.flatMap((key) => questions.filter((each) => each.key === key && key !== open?.key));
  const more = news.length - SHOWN_MAX;

  // A notice that goes away under the focus must not leave the keyboard at the beginning of the page.
  useLayoutEffect(() => {
    if (hadFocus.current && document.activeElement === document.body) document.getElementById("content")?.focus();
    hadFocus.current = false;
  }, [news.length]);

  return (
    <section
      className="notices"
      aria-label="New questions"
      ref={box}
      onFocus={() => (hadFocus.current = true)}
      onBlur={(event) => (hadFocus.current = event.relatedTarget === null)}
    >
      <div role="status" className="off-screen">
        {news.slice(0, SHOWN_MAX).map((question) => (
          <p key={question.key}>
            <Asker question={question} />
          </p>
        ))}
      </div>
      {news.slice(0, SHOWN_MAX).map((question) => (
        <Notice key={question.key} question={question} />
      ))}
      {more > 0 && (
        <p className="notice">
          <a href={placeOf("questions")}>{plural(more, "more question")}</a>
        </p>
      )}
    </section>
  );
}

function Notice({ question }: { question: Question }) {
  return (
    <div className="notice">
      <p>
        <Asker question={question} />
      </p>
      <Brief text={kindOf(question) === "approval" ? JSON.stringify(question.arguments) : plainQuestion(question)} />
      {question.fault && <p className="field-fault">The last answer was refused: <bdi dir="auto">{question.fault.slice(0, 200)}</bdi></p>}
      <p className="actions">
        <button type="button" className="small primary" onClick={() => openQuestion(question)}>
          {isDecision(question) ? "Review…" : "Answer…"}
        </button>
        <button type="button" className="small plain" onClick={() => dismissNotice(question.key)}>
          Dismiss
        </button>
        <a href={placeOf("runs", question.run)}>Open run</a>
        <QuestionTimes question={question} />
      </p>
    </div>
  );
}
