import { asked, inbox, refreshInbox } from "../state/questions";
import { placeOf } from "../state/router";
import { useStore } from "../state/store";
import { when } from "../state/words";
import { Act } from "../ui/Act";
import { Empty, Failed, Loading } from "../ui/Notes";
import { Said } from "../ui/Said";

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
        <Empty title="Nobody waits for you.">When an agent asks something, it opens here, on whatever screen you are.</Empty>
      )}
      <ul className="inbox">
        {questions.map((question) => (
          <li key={question.id}>
            <p className="entry-head">
              <bdi className="author">{question.agent}</bdi> of <bdi>{question.crew}</bdi>
              <bdi className="quiet">{question.reason}</bdi>
              <time>{when(question.asked_at)}</time>
            </p>
            <Said text={question.question} />
            <p className="actions">
              <Act needs="answer" className="primary" onClick={() => asked.set(question)}>
                Answer
              </Act>
              <a href={placeOf("runs", question.run)}>Look at the run</a>
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}
