import { Background, Controls, MarkerType, ReactFlow, type EdgeTypes, type NodeTypes } from "@xyflow/react";
import { useEffect, useMemo, useState } from "react";
import type { Graph } from "../api/types";
import { Story } from "../state/story";
import { useWide } from "../ui/useWide";
import { AgentNode, type CrewNode } from "./AgentNode";
import { placed, type Placed } from "./layout";
import { SignalEdge, type CrewEdge } from "./SignalEdge";
import { nodeState, usedEdges } from "./taken";

const NODES: NodeTypes = { crew: AgentNode };
const EDGES: EdgeTypes = { crew: SignalEdge };
const NOTHING = new Story();

/** A crew as a graph; with a story, where the run stands and which ways it went. `version` says that it changed. */
export function CrewGraph({ graph, story = NOTHING, version = 0 }: { graph: Graph; story?: Story; version?: number }) {
  const [path, setPath] = useState<readonly string[]>([]);
  const isWide = useWide();
  useEffect(() => setPath([]), [graph]);
  const level = useMemo(() => inside(graph, path), [graph, path]);
  const plan = useMemo(() => placed(level, isWide ? "LR" : "TB"), [level, isWide]);
  // The story is one object all the time: its version tells of changes.
  const nodes = useMemo(() => nodesOf(plan, story, path, setPath), [plan, story, path, version]);
  const edges = useMemo(() => edgesOf(plan, level, story, path), [plan, level, story, path, version]);
  return (
    <div className="graph" role="group" aria-label={`Graph of the crew ${level.name}`}>
      {path.length > 0 && (
        <nav className="graph-path" aria-label="Crews above">
          <button type="button" onClick={() => setPath([])}>
            {graph.name}
          </button>
          {path.map((name, n) => (
            <button type="button" key={name} onClick={() => setPath(path.slice(0, n + 1))}>
              › {name}
            </button>
          ))}
        </nav>
      )}
      <ReactFlow
        key={`${path.join("/")} ${isWide}`}
        nodes={nodes}
        edges={edges}
        nodeTypes={NODES}
        edgeTypes={EDGES}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        preventScrolling={false}
        zoomOnScroll={false}
        fitView
        fitViewOptions={{ padding: 0.06, minZoom: 0.3, maxZoom: 1.1 }}
        minZoom={0.1}
      >
        <Background gap={24} />
        <Controls showInteractive={false} position={isWide ? "bottom-left" : "top-right"} />
      </ReactFlow>
    </div>
  );
}

function inside(graph: Graph, path: readonly string[]): Graph {
  let level = graph;
  for (const name of path) level = level.nodes.find((node) => node.name === name && node.inside)?.inside ?? level;
  return level;
}

function nodesOf(plan: Placed, story: Story, path: readonly string[], go: (path: readonly string[]) => void): CrewNode[] {
  return plan.nodes.map(({ node, at }) => ({
    id: node.id,
    type: "crew",
    position: { x: at.x, y: at.y },
    ariaLabel: `${node.name || node.kind}${node.entry ? ", starts here" : ""}`,
    data: {
      node,
      state: nodeState(story, path, node.name),
      ...(node.inside && { open: () => go([...path, node.name]) }),
    },
  }));
}

function edgesOf(plan: Placed, level: Graph, story: Story, path: readonly string[]): CrewEdge[] {
  const { times, last } = usedEdges(level, story, path);
  return plan.edges.map((each, n) => ({
    id: each.id,
    type: "crew",
    source: each.edge.source,
    target: each.edge.target,
    markerEnd: {
      type: MarkerType.ArrowClosed,
      color: times.has(n) ? "#2f9e7f" : "#8a94a3",
      markerUnits: "userSpaceOnUse",
      width: 22,
      height: 22,
    },
    data: { placed: each, times: times.get(n) ?? 0, isLast: n === last },
  }));
}
