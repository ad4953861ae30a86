import { Asker } from "../questions/Asker";
import { isDecision, kindOf, plainQuestion } from "../questions/kinds";
import { QuestionTimes } from "../questions/QuestionFacts";
import { inbox, openQuestion, refreshInbox } from "../state/questions";
import { placeOf } from "../state/router";
import { useStore } from "../state/store";
import { Markdown } from "../markdown/Markdown";
import { Act } from "../ui/Act";
import { Empty, Failed, Loading } from "../ui/Notes";
import { Brief } from "../ui/Said";

export function Questions() {
  const { questions, isKnown, error } = useStore(inbox);
  return (
    <>
      <div className="head">
        <h1>Questions</h1>
      </div>
      {error && <Failed error={error} again={() => void refreshInbox()} />}
      {!isKnown && !error && <Loading what="questions" />}
      {isKnown && !questions.length && (
        <Empty title="No open questions">When an agent asks something, a notice appears on every screen, and the question is listed here.</Empty>
      )}
      <ul className="inbox">
        {questions.map((question) => (
          <li key={question.key}>
            <p className="entry-head">
              <Asker question={question} />
              <QuestionTimes question={question} />
            </p>
            {kindOf(question) === "approval" ? (
              <Brief text={JSON.stringify(question.arguments)} />
            ) : (
              <Markdown text={plainQuestion(question)} />
            )}
            <p className="actions">
              <Act needs="answer" className="primary" onClick={() => openQuestion(question)}>
                {isDecision(question) ? "Review" : "Answer"}
              </Act>
              <a href={placeOf("runs", question.run)}>Open run</a>
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}
