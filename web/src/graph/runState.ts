/** The state of nodes and edges of a crew's graph in a run. */
import type { Graph, GraphEdge } from "../api/types";
import { END, pathLabel, nodeKey, type RunProjection } from "../state/runProjection";

export interface NodeState {
  readonly isActive: boolean;
  readonly isWaiting: boolean;
  readonly visits: number;
  /** From `agent.state`; may be empty. */
  readonly agentState: string;
}

export function nodeState(projection: RunProjection, path: readonly string[], name: string): NodeState {
  const place = nodeKey(path, name);
  return {
    isActive: projection.active.has(place),
    isWaiting: projection.waiting.has(place),
    visits: projection.visits.get(place) ?? 0,
    agentState: projection.states.get(place) ?? "",
  };
}

/** How often each edge was used, by index, and the last one used. */
export function edgeUsage(
  graph: Graph,
  projection: RunProjection,
  path: readonly string[],
): { readonly times: ReadonlyMap<number, number>; readonly last: number } {
  const level = pathLabel(path);
  const names = new Map(graph.nodes.map((node) => [node.id, node.kind === "end" ? END : node.name]));
  const times = new Map<number, number>();
  let last = -1;
  let before = "";
  for (const step of projection.steps) {
    if (step.level !== level) continue;
    const key = `${step.from} ${step.to} ${step.signal}`;
    if (key === before) continue; // a decision and the handoff that follows it
    before = key;
    const found = graph.edges.findIndex((edge) => isEdgeOfStep(edge, names, step.from, step.to, step.signal));
    if (found < 0) continue;
    times.set(found, (times.get(found) ?? 0) + 1);
    last = found;
  }
  return { times, last };
}

function isEdgeOfStep(edge: GraphEdge, names: ReadonlyMap<string, string>, from: string, to: string, signal: string): boolean {
  const isSame = names.get(edge.source) === from && names.get(edge.target) === to;
  return isSame && (!signal || !edge.label || edge.label.toLowerCase() === signal.toLowerCase());
}
