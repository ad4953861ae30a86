import { useId } from "react";
import type { Question } from "../api/types";
import { useHasScope } from "../state/auth";
import { hrefOf } from "../state/router";

/** The answers that approve a call as it is; the server reads the same words. */
export const HOLDS = ["yes", "for this run", "always"] as const;
export type Holds = (typeof HOLDS)[number];

const LABELS: Readonly<Record<Holds, string>> = { yes: "once", "for this run": "for this run", always: "always" };

interface Props {
  readonly question: Question;
  readonly holds: Holds;
  readonly choose: (holds: Holds) => void;
  readonly isDisabled: boolean;
}

/** How long the approval holds, and for which calls. Only for keys that may say so, and where the question names calls. */
export function HoldChoice({ question, holds, choose, isDisabled }: Props) {
  const id = useId();
  const isAllowed = useHasScope("approve");
  if (!isAllowed || !question.holds_for) return null;
  return (
    <p className="hold-choice">
      <label htmlFor={id}>The approval holds</label>{" "}
      <select id={id} value={holds} disabled={isDisabled} onChange={(event) => choose(event.target.value as Holds)}>
        {HOLDS.map((each) => (
          <option key={each} value={each}>
            {LABELS[each]}
          </option>
        ))}
      </select>
      {holds !== "yes" && (
        <>
          {" "}
          <span className="quiet">
            for all calls of <bdi>{question.crew}</bdi> that fit <code>{question.holds_for}</code>. It is listed under{" "}
            <a href={hrefOf("questions")}>Questions</a>, and can be revoked there.
          </span>
        </>
      )}
    </p>
  );
}
