import type { UsageReport, Used } from "../api/types";
import { count, money, plural } from "../state/words";
import { Table } from "../ui/Table";

export function UsageTable({ report }: { report: UsageReport }) {
  return (
    <Table head={["crew", "agent", "calls", "tokens in", "tokens out", "cost"]} look="usage">
      {report.crews.flatMap((crew) => [
        <Row key={crew.crew} crew={crew.crew} agent={plural(crew.runs, "run")} used={crew.usage} isWhole />,
        ...crew.agents.map((each) => <Row key={`${crew.crew} ${each.agent}`} crew="" agent={each.agent} used={each.usage} />),
      ])}
    </Table>
  );
}

function Row({ crew, agent, used, isWhole = false }: { crew: string; agent: string; used: Used; isWhole?: boolean }) {
  return (
    <tr className={isWhole ? "usage-crew" : ""}>
      <td>
        <bdi>{crew}</bdi>
      </td>
      <td>
        <bdi>{agent}</bdi>
      </td>
      <td>{count(used.calls)}</td>
      <td>{count(used.input_tokens)}</td>
      <td>{count(used.output_tokens)}</td>
      <td>{money(used.cost_micros)}</td>
    </tr>
  );
}
