import type { Question } from "../api/types";
import { headline } from "./kinds";

/** Such as: clerk (office) asks. */
export function Asker({ question }: { question: Question }) {
  return (
    <span>
      <bdi className="author">{question.agent}</bdi> (<bdi>{question.crew}</bdi>) <bdi>{headline(question)}</bdi>
    </span>
  );
}
