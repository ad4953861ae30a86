import { useCallback, useEffect, useRef } from "react";
import type { Question } from "../api/types";
import { Markdown } from "../markdown/Markdown";
import { closeQuestion, inbox, currentQuestion } from "../state/questions";
import { useStore } from "../state/store";
import { AnswerForm } from "./AnswerForm";
import { QuestionTitle } from "./QuestionTitle";
import { ApprovalForm } from "./ApprovalForm";
import { QuestionBackground } from "./QuestionBackground";
import { HeldSignalForm, LostToolForm } from "./DecisionForm";
import { kindOf, plainQuestion } from "./kinds";
import { QuestionFacts } from "./QuestionFacts";

/** A panel beside the page. It opens only on request, and does not trap the focus. */
export function QuestionDrawer() {
  const question = useStore(currentQuestion);
  return question && <DrawerContent key={question.key} first={question} />;
}

const FORMS = { approval: ApprovalForm, held: HeldSignalForm, hook: HeldSignalForm, "lost-tool": LostToolForm, question: AnswerForm } as const;

function DrawerContent({ first }: { first: Question }) {
  const head = useRef<HTMLHeadingElement>(null);
  const opener = useRef<Element | null>(null);
  const { questions, isKnown } = useStore(inbox);
  const listed = questions.find((each) => each.key === first.key);
  const latest = useRef(first);
  if (listed) latest.current = listed; // the question may be asked again, with another id
  const question = latest.current;
  const isOpen = !isKnown || listed !== undefined;

  useEffect(() => {
    opener.current = document.activeElement;
    head.current?.focus();
  }, []);

  const close = useCallback((): void => {
    const back = opener.current;
    closeQuestion();
    const isThere = back instanceof HTMLElement && back.isConnected && back !== document.body;
    (isThere ? back : document.getElementById("content"))?.focus();
  }, []);

  const Form = FORMS[kindOf(question)];
  return (
    <aside
      className="drawer"
      role="dialog"
      aria-labelledby="drawer-title"
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      <header className="drawer-head">
        <h2 id="drawer-title" tabIndex={-1} ref={head}>
          <QuestionTitle question={question} />
        </h2>
        <button type="button" className="small" onClick={close}>
          Decide later
        </button>
      </header>
      <QuestionFacts question={question} />
      {kindOf(question) !== "approval" && (
        <div className="drawer-question">
          {plainQuestion(question) ? <Markdown text={plainQuestion(question)} /> : <p className="quiet">The agent waits; it gave no question.</p>}
        </div>
      )}
      {question.context && (
        <section className="drawer-context" aria-label="Context">
          <p className="background-head">Context</p>
          <Markdown text={question.context} />
        </section>
      )}
      <Form question={question} isOpen={isOpen} done={close} />
      <QuestionBackground question={question} />
    </aside>
  );
}
