import type { CacheSavings, UsageReport, UsageTotals } from "../api/types";
import { cachedShare, costOf, count, plural, savedOf } from "../state/format";
import { Table } from "../ui/Table";

export function UsageTable({ report }: { report: UsageReport }) {
  return (
    <Table head={["crew and agent", "calls", "tokens in", "cached", "tokens out", "cost", "saved"]} look="usage">
      {report.crews.flatMap((crew) => [
        <Row key={crew.crew} look="usage-crew" name={crew.crew} note={plural(crew.runs, "run")} used={crew.usage} savings={crew.savings} />,
        ...crew.agents.map((each) => (
          <Row key={`${crew.crew} ${each.agent}`} look="usage-agent" name={each.agent} used={each.usage} savings={each.savings} />
        )),
      ])}
    </Table>
  );
}

interface RowProps {
  look: string;
  name: string;
  note?: string;
  used: UsageTotals;
  savings: CacheSavings;
}

function Row({ look, name, note = "", used, savings }: RowProps) {
  return (
    <tr className={look}>
      <td>
        <bdi>{name}</bdi> <span className="quiet">{note}</span>
      </td>
      <td>{count(used.calls)}</td>
      <td>{count(used.input_tokens)}</td>
      <td>{cachedShare(used)}</td>
      <td>{count(used.output_tokens)}</td>
      <td>{costOf(used)}</td>
      <td>{savedOf(used, savings)}</td>
    </tr>
  );
}
