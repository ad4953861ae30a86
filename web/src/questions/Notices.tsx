import { useLayoutEffect, useRef } from "react";
import type { Question } from "../api/types";
import { noticeKeys, dismissNotice, inbox, currentQuestion, openQuestion } from "../state/questions";
import { hrefOf } from "../state/router";
import { useStore } from "../state/store";
import { plural } from "../state/format";
import { OneLine } from "../ui/PlainText";
import { QuestionTitle } from "./QuestionTitle";
import { isDecision, kindOf, plainQuestion } from "./kinds";
import { QuestionTimes } from "./QuestionFacts";

const SHOWN_MAX = 2;

/** New questions. A notice takes no focus and has no button that answers. Screen readers read only the title: times change. */
export function Notices() {
  const keys = useStore(noticeKeys);
  const { questions } = useStore(inbox);
  const open = useStore(currentQuestion);
  const box = useRef<HTMLElement>(null);
  const hadFocus = useRef(false);
  const news = keys.flatMap((key) => questions.filter((each) => each.key === key && key !== open?.key));
  const more = news.length - SHOWN_MAX;

  // A focused notice that disappears must not move the focus to the start of the page.
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
            <QuestionTitle question={question} />
          </p>
        ))}
      </div>
      {news.slice(0, SHOWN_MAX).map((question) => (
        <Notice key={question.key} question={question} />
      ))}
      {more > 0 && (
        <p className="notice">
          <a href={hrefOf("questions")}>{plural(more, "more question")}</a>
        </p>
      )}
    </section>
  );
}

function Notice({ question }: { question: Question }) {
  return (
    <div className="notice">
      <p>
        <QuestionTitle question={question} />
      </p>
      <OneLine text={kindOf(question) === "approval" ? JSON.stringify(question.arguments) : plainQuestion(question)} />
      {question.fault && <p className="field-fault">The last answer was refused: <bdi dir="auto">{question.fault.slice(0, 200)}</bdi></p>}
      <p className="actions">
        <button type="button" className="small primary" onClick={() => openQuestion(question)}>
          {isDecision(question) ? "Review…" : "Answer…"}
        </button>
        <button type="button" className="small plain" onClick={() => dismissNotice(question.key)}>
          Dismiss
        </button>
        <a href={hrefOf("runs", question.run)}>Open run</a>
        <QuestionTimes question={question} />
      </p>
    </div>
  );
}
