import { Background, Controls, MarkerType, ReactFlow, type EdgeTypes, type NodeTypes } from "@xyflow/react";
import { useEffect, useMemo, useState } from "react";
import type { Graph } from "../api/types";
import { RunProjection } from "../state/runProjection";
import { useWide } from "../ui/useWide";
import { AgentNode, type CrewNode } from "./AgentNode";
import { layoutGraph, type GraphLayout } from "./layout";
import { SignalEdge, type CrewEdge } from "./SignalEdge";
import { nodeState, edgeUsage } from "./runState";

const NODES: NodeTypes = { crew: AgentNode };
const EDGES: EdgeTypes = { crew: SignalEdge };
const EMPTY_RUN = new RunProjection();

/** The graph of a crew; with a projection, the position and path of the run. `version` changes with the projection. */
export function CrewGraph({ graph, projection = EMPTY_RUN, version = 0 }: { graph: Graph; projection?: RunProjection; version?: number }) {
  const [path, setPath] = useState<readonly string[]>([]);
  const isWide = useWide();
  useEffect(() => setPath([]), [graph]);
  const level = useMemo(() => graphAt(graph, path), [graph, path]);
  const plan = useMemo(() => layoutGraph(level, isWide ? "LR" : "TB"), [level, isWide]);
  // The projection stays the same object: its version changes.
  const nodes = useMemo(() => nodesOf(plan, projection, path, setPath), [plan, projection, path, version]);
  const edges = useMemo(() => edgesOf(plan, level, projection, path), [plan, level, projection, path, version]);
  return (
    <div className="graph" role="group" aria-label={`Graph of the crew ${level.name}`}>
      {path.length > 0 && (
        <nav className="graph-path" aria-label="Parent crews">
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

function graphAt(graph: Graph, path: readonly string[]): Graph {
  let level = graph;
  for (const name of path) level = level.nodes.find((node) => node.name === name && node.inside)?.inside ?? level;
  return level;
}

function nodesOf(plan: GraphLayout, projection: RunProjection, path: readonly string[], open: (path: readonly string[]) => void): CrewNode[] {
  return plan.nodes.map(({ node, at }) => ({
    id: node.id,
    type: "crew",
    position: { x: at.x, y: at.y },
    ariaLabel: `${node.name || node.kind}${node.entry ? ", starts here" : ""}`,
    data: {
      node,
      state: nodeState(projection, path, node.name),
      ...(node.inside && { open: () => open([...path, node.name]) }),
    },
  }));
}

function edgesOf(plan: GraphLayout, level: Graph, projection: RunProjection, path: readonly string[]): CrewEdge[] {
  const { times, last } = edgeUsage(level, projection, path);
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
    data: { layout: each, times: times.get(n) ?? 0, isLast: n === last },
  }));
}
