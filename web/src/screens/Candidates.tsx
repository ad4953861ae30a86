import type { RunEvent } from "../api/events";

interface Candidate {
  readonly signal: string;
  readonly verb: string;
  readonly target: string;
  readonly priority: number;
  readonly outcome: string;
}

/** The marks of one reply, and which of them won. */
export function Candidates({ event }: { event: RunEvent }) {
  const found = event["candidates"];
  if (!Array.isArray(found) || found.length < 2) return null;
  return (
    <table className="candidates">
      <thead>
        <tr>
          <th>mark</th>
          <th>would</th>
          <th>priority</th>
          <th>outcome</th>
        </tr>
      </thead>
      <tbody>
        {(found as Candidate[]).map((each, n) => (
          <tr key={n}>
            <td>
              <bdi>{each.signal}</bdi>
            </td>
            <td>
              <bdi>
                {each.verb} {each.target}
              </bdi>
            </td>
            <td>{each.priority}</td>
            <td>{each.outcome}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
