import type { Question } from "../api/types";
import { headline } from "./kinds";

/** For example: clerk (office) asks. */
export function QuestionTitle({ question }: { question: Question }) {
  return (
    <span>
      <bdi className="author">{question.agent}</bdi> (<bdi>{question.crew}</bdi>) <bdi>{headline(question)}</bdi>
    </span>
  );
}
