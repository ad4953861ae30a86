import type { UsageReport, UsageTotals } from "../api/types";
import { costOf, count, plural } from "../state/format";
import { Table } from "../ui/Table";

export function UsageTable({ report }: { report: UsageReport }) {
  return (
    <Table head={["crew and agent", "calls", "tokens in", "tokens out", "cost"]} look="usage">
      {report.crews.flatMap((crew) => [
        <Row key={crew.crew} look="usage-crew" name={crew.crew} note={plural(crew.runs, "run")} used={crew.usage} />,
        ...crew.agents.map((each) => <Row key={`${crew.crew} ${each.agent}`} look="usage-agent" name={each.agent} used={each.usage} />),
      ])}
    </Table>
  );
}

function Row({ look, name, note = "", used }: { look: string; name: string; note?: string; used: UsageTotals }) {
  return (
    <tr className={look}>
      <td>
        <bdi>{name}</bdi> <span className="quiet">{note}</span>
      </td>
      <td>{count(used.calls)}</td>
      <td>{count(used.input_tokens)}</td>
      <td>{count(used.output_tokens)}</td>
      <td>{costOf(used)}</td>
    </tr>
  );
}
