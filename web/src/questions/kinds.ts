/** The kind of a question, and its text without the hints for terminals. */
import type { Question } from "../api/types";

export type QuestionKind = "approval" | "held" | "hook" | "lost-tool" | "question";

export function kindOf(question: Question): QuestionKind {
  if (question.reason === "approval") return "approval";
  if (question.reason.startsWith("held:")) return "held";
  if (question.reason === "hook") return "hook";
  return question.reason === "tool_unknown_outcome" ? "lost-tool" : "question";
}

/** The question without the fault of the last answer, which the form shows. */
export function plainQuestion({ question, fault }: Question): string {
  return fault ? question.slice(0, question.length - fault.length - 3) : question;
}

export function headline(question: Question): string {
  switch (kindOf(question)) {
    case "approval":
      return `wants to use ${question.tool}`;
    case "held":
      return `wants to continue with ${question.reason.slice("held:".length)}`;
    case "lost-tool":
      return `does not know whether ${question.tool} ran`;
    case "hook":
      return "needs a decision";
    case "question":
      return "asks";
  }
}

/** Whether the question takes an approval rather than an answer. */
export function isDecision(question: Question): boolean {
  return kindOf(question) !== "question" && kindOf(question) !== "lost-tool";
}
