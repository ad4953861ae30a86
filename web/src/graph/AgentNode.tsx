import { Handle, Position, type Node, type NodeProps } from "@xyflow/react";
import type { GraphNode } from "../api/types";
import type { NodeState } from "./runState";

interface Data extends Record<string, unknown> {
  readonly node: GraphNode;
  readonly state: NodeState;
  /** Opens the graph of the sub-crew. */
  readonly open?: () => void;
}

export type CrewNode = Node<Data, "crew">;

export function AgentNode({ data: { node, state, open } }: NodeProps<CrewNode>) {
  const look = ["node", `node-${node.kind}`, state.isActive && "is-active", state.isWaiting && "is-waiting"];
  const note = nodeNote(node, state);
  return (
    <div className={look.filter(Boolean).join(" ")} title={[node.label, ...node.notes].join("\n")}>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      {open ? (
        <button type="button" className="node-name node-open" aria-label={`Open ${node.name}`} onClick={open}>
          <bdi>{node.name}</bdi>
        </button>
      ) : (
        <bdi className="node-name">{node.kind === "end" ? "end" : node.name}</bdi>
      )}
      <span key={note} className="node-note">
        {note}
      </span>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
}

const STATE_NOTES: Record<string, string> = {
  waiting_for_child: "waiting for reports",
  waiting_for_parent: "waiting for an answer",
  waiting_for_user: "waiting for a person",
};

function nodeNote(node: GraphNode, state: NodeState): string {
  if (state.isWaiting) return "waiting for you";
  if (state.isActive) return STATE_NOTES[state.agentState] ?? "working";
  if (state.visits) return state.visits === 1 ? "done" : `${state.visits} turns`;
  if (node.entry) return "starts here";
  return { agent: "", group: "group", sub_crew: "crew", end: "", unknown: "not in the crew" }[node.kind];
}
