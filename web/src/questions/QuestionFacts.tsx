import type { Question } from "../api/types";
import { hrefOf } from "../state/router";
import { useNow } from "../state/useNow";
import { duration, formatDateTime } from "../state/format";
import { kindOf } from "./kinds";

/** When the question was asked, and its deadline. */
export function QuestionTimes({ question }: { question: Question }) {
  const now = useNow();
  const { asked_at: asked, deadline_at: deadline } = question;
  return (
    <span className="quiet times">
      asked <time dateTime={new Date(asked).toISOString()}>{ageOf(now - asked)}</time>
      {deadline !== null && <span className={deadline - now < 60_000 ? "is-urgent" : ""}> · {timeLeft(deadline - now)}</span>}
    </span>
  );
}

export function ageOf(ms: number): string {
  return ms < 10_000 ? "just now" : `${roughDuration(ms)} ago`;
}

function timeLeft(ms: number): string {
  return ms <= 0 ? "deadline passed" : `${roughDuration(ms)} left to answer`;
}

function roughDuration(ms: number): string {
  if (ms < 60_000) return `${Math.max(1, Math.round(ms / 1_000))} s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`;
  return ms < 172_800_000 ? duration(ms) : `${Math.round(ms / 86_400_000)} days`;
}

function withoutAnswer(question: Question): string {
  switch (kindOf(question)) {
    case "approval":
      return "the call is denied";
    case "hook":
      return "the answer is no";
    default:
      return "the agent continues without an answer";
  }
}

export function QuestionFacts({ question }: { question: Question }) {
  return (
    <div className="question-facts">
      <p>
        <QuestionTimes question={question} /> · <span className="quiet">run <bdi>{question.run}</bdi></span> ·{" "}
        <a href={hrefOf("runs", question.run)}>Open run</a>
      </p>
      {question.deadline_at !== null && (
        <p className="quiet">
          Answer by {formatDateTime(question.deadline_at)}
          {question.default !== null ? (
            <>
              ; after that the answer is <bdi dir="auto">“{question.default}”</bdi>
            </>
          ) : (
            `; after that ${withoutAnswer(question)}`
          )}
          .
        </p>
      )}
    </div>
  );
}
