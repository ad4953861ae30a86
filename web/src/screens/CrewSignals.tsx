import type { CrewDetail } from "../api/types";
import { EmptyNotice } from "../ui/Notes";
import { Table } from "../ui/Table";

export function CrewSignals({ crew }: { crew: CrewDetail }) {
  return (
    <div className="tables" tabIndex={0} role="group" aria-label="Signals">
      <h2>Routes</h2>
      {crew.routes.length ? <RouteTable crew={crew} /> : <EmptyNotice title="This crew has no routes." />}
      <h2>Registered signals</h2>
      {crew.signals.length ? <SignalTable crew={crew} /> : <EmptyNotice title="A crew with errors has no registry." />}
    </div>
  );
}

function RouteTable({ crew }: { crew: CrewDetail }) {
  return (
    <Cells
      head={["agent", "signal", "does", "target", "priority", "meaning"]}
      rows={crew.routes.map((each) => [
        each.agent,
        each.signal,
        each.behavior,
        each.target,
        String(each.priority),
        each.description,
      ])}
    />
  );
}

function SignalTable({ crew }: { crew: CrewDetail }) {
  return (
    <Cells
      head={["signal", "does", "priority", "meaning"]}
      rows={crew.signals.map((each) => [each.name, each.behavior, String(each.priority), each.description])}
    />
  );
}

function Cells({ head, rows }: { head: readonly string[]; rows: readonly (readonly string[])[] }) {
  return (
    <Table head={head}>
      {rows.map((row, n) => (
        <tr key={n}>
          {row.map((cell, column) => (
            <td key={column}>
              <bdi>{cell}</bdi>
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}
