import type { RunEvent } from "../api/events";
import { Table } from "../ui/Table";

interface Candidate {
  readonly signal: string;
  readonly verb: string;
  readonly target: string;
  readonly priority: number;
  readonly outcome: string;
}

/** The signals of one reply, and which of them won. */
export function Candidates({ event }: { event: RunEvent }) {
  const found = event["candidates"];
  if (!Array.isArray(found) || found.length < 2) return null;
  return (
    <Table head={["signal", "action", "priority", "outcome"]} look="candidates">
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
    </Table>
  );
}
