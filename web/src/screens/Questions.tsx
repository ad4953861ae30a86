import { QuestionTitle } from "../questions/QuestionTitle";
import { isDecision, kindOf, plainQuestion } from "../questions/kinds";
import { QuestionTimes } from "../questions/QuestionFacts";
import { inbox, openQuestion, refreshInbox } from "../state/questions";
import { hrefOf } from "../state/router";
import { useStore } from "../state/store";
import { Markdown } from "../markdown/Markdown";
import { ScopedButton } from "../ui/ScopedButton";
import { EmptyNotice, ErrorNotice, LoadingNotice } from "../ui/Notes";
import { OneLine } from "../ui/PlainText";
import { ApprovalList } from "./ApprovalList";

export function Questions() {
  const { questions, isKnown, error } = useStore(inbox);
  return (
    <>
      <div className="head">
        <h1>Questions</h1>
      </div>
      {error && <ErrorNotice error={error} retry={() => void refreshInbox()} />}
      {!isKnown && !error && <LoadingNotice what="questions" />}
      {isKnown && !questions.length && (
        <EmptyNotice title="No open questions">When an agent asks something, a notice appears on every screen, and the question is listed here.</EmptyNotice>
      )}
      <ul className="inbox">
        {questions.map((question) => (
          <li key={question.key}>
            <p className="entry-head">
              <QuestionTitle question={question} />
              <QuestionTimes question={question} />
            </p>
            {kindOf(question) === "approval" ? (
              <OneLine text={JSON.stringify(question.arguments)} />
            ) : (
              <Markdown text={plainQuestion(question)} />
            )}
            <p className="actions">
              <ScopedButton needs="answer" className="primary" onClick={() => openQuestion(question)}>
                {isDecision(question) ? "Review" : "Answer"}
              </ScopedButton>
              <a href={hrefOf("runs", question.run)}>Open run</a>
            </p>
          </li>
        ))}
      </ul>
      <div className="columns">
        <ApprovalList />
      </div>
    </>
  );
}
