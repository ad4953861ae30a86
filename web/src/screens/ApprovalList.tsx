import { useState } from "react";
import { remove } from "../api/client";
import type { StreamEvent } from "../api/events";
import type { Approval, ApprovalPage, RevokedApproval } from "../api/types";
import { hrefOf } from "../state/router";
import { useResource } from "../state/useResource";
import { formatDateTime } from "../state/format";
import { EmptyNotice } from "../ui/Notes";
import { Table } from "../ui/Table";
import { Listing } from "./Listing";
import { RevokeControls } from "./RevokeControls";
import { useAction } from "./useAction";

const PATH = "/v1/approvals";
// Another person, or a command, may revoke one: that is no event of a run.
const POLL_MS = 5_000;

const isApproval = (event: StreamEvent): boolean => event.type === "approval.given";

/** The answers that hold for later calls of a tool, and those that were revoked. */
export function ApprovalList() {
  const { value, error, refresh } = useResource<ApprovalPage>(PATH, isApproval, POLL_MS);
  const { error: refused, send } = useAction(refresh);
  const [asked, setAsked] = useState("");
  const revoke = (id: string): void => {
    setAsked("");
    void send(() => remove(`${PATH}/${encodeURIComponent(id)}`));
  };
  return (
    <Listing
      title="Standing approvals"
      head={["calls", "holds", "answer", ""]}
      items={value && value.approvals}
      empty={
        <EmptyNotice title="No standing approvals">
          An approval that is given for a run or always is listed here, and can be revoked.
        </EmptyNotice>
      }
      {...{ error, refresh, refused }}
      row={(each) => (
        <tr key={each.id}>
          <ApprovalCells approval={each} />
          <td className="actions">
            <RevokeControls
              approval={each}
              isAsked={asked === each.id}
              ask={() => setAsked(each.id)}
              keep={() => setAsked("")}
              revoke={() => revoke(each.id)}
            />
          </td>
        </tr>
      )}
    >
      {value && value.revoked.length > 0 && <RevokedList revoked={value.revoked} />}
    </Listing>
  );
}

function ApprovalCells({ approval }: { approval: Approval }) {
  const { pattern, crew, run, asked_in: askedIn, by, at } = approval;
  return (
    <>
      <td>
        <code>
          <bdi>{pattern}</bdi>
        </code>{" "}
        <span className="quiet">
          of crew <bdi>{crew}</bdi>
        </span>
      </td>
      <td>
        {run ? (
          <>
            for run{" "}
            <a href={hrefOf("runs", run)}>
              <bdi>{run}</bdi>
            </a>
          </>
        ) : (
          "always"
        )}
      </td>
      <td>
        given {formatDateTime(at)}
        {by && (
          <>
            {" "}
            by <bdi>{by}</bdi>
          </>
        )}{" "}
        <a href={hrefOf("runs", askedIn)}>Run that asked</a>
      </td>
    </>
  );
}

function RevokedList({ revoked }: { revoked: readonly RevokedApproval[] }) {
  return (
    <details>
      <summary>Revoked ({revoked.length})</summary>
      <Table head={["calls", "held", "answer", "end"]}>
        {revoked.map((each) => (
          <tr key={each.id}>
            <ApprovalCells approval={each} />
            <td>
              revoked {formatDateTime(each.revoked_at)} by <bdi>{each.revoked_by}</bdi>
            </td>
          </tr>
        ))}
      </Table>
    </details>
  );
}
