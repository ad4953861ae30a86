/** Which nodes and arrows of a crew's graph a run stands at and has used. */
import type { Graph, GraphEdge } from "../api/types";
import { END, levelOf, placeKey, type Story } from "../state/story";

export interface NodeState {
  readonly isActive: boolean;
  readonly isWaiting: boolean;
  readonly visits: number;
  /** What `agent.state` says of it, if anything. */
  readonly doing: string;
}

export function nodeState(story: Story, path: readonly string[], name: string): NodeState {
  const place = placeKey(path, name);
  return {
    isActive: story.active.has(place),
    isWaiting: story.waiting.has(place),
    visits: story.visits.get(place) ?? 0,
    doing: story.states.get(place) ?? "",
  };
}

/** How often each arrow was used, by its number, and the one that was used last. */
export function usedEdges(
  graph: Graph,
  story: Story,
  path: readonly string[],
): { readonly times: ReadonlyMap<number, number>; readonly last: number } {
  const level = levelOf(path);
  const names = new Map(graph.nodes.map((node) => [node.id, node.kind === "end" ? END : node.name]));
  const times = new Map<number, number>();
  let last = -1;
  let before = "";
  for (const step of story.steps) {
    if (step.level !== level) continue;
    const said = `${step.from} ${step.to} ${step.signal}`;
    if (said === before) continue; // a decision and the handoff that follows it
    before = said;
    const found = graph.edges.findIndex((edge) => fits(edge, names, step.from, step.to, step.signal));
    if (found < 0) continue;
    times.set(found, (times.get(found) ?? 0) + 1);
    last = found;
  }
  return { times, last };
}

function fits(edge: GraphEdge, names: ReadonlyMap<string, string>, from: string, to: string, signal: string): boolean {
  const isSame = names.get(edge.source) === from && names.get(edge.target) === to;
  return isSame && (!signal || !edge.label || edge.label.toLowerCase() === signal.toLowerCase());
}
