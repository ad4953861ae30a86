/** Where the nodes and arrows of a crew stand. Every arrow has a way of its own, there and back included. */
import { Graph as Layout, layout as place } from "@dagrejs/dagre";
import type { Graph, GraphEdge, GraphNode } from "../api/types";

type Direction = "LR" | "TB";

// As in the style: a telephone shows narrower nodes, one rank below the other.
const WIDTHS: Readonly<Record<Direction, number>> = { LR: 168, TB: 124 };
const HEIGHT = 54;
const CORNER = 28;

export interface Point {
  readonly x: number;
  readonly y: number;
}
export interface PlacedNode {
  readonly node: GraphNode;
  readonly at: Point;
}
export interface PlacedEdge {
  readonly id: string;
  readonly edge: GraphEdge;
  readonly path: string;
  readonly label: Point;
}
export interface Placed {
  readonly nodes: readonly PlacedNode[];
  readonly edges: readonly PlacedEdge[];
}

export function placed(graph: Graph, direction: Direction): Placed {
  const width = WIDTHS[direction];
  const plan = new Layout({ multigraph: true });
  plan.setGraph({ rankdir: direction, nodesep: direction === "LR" ? 40 : 16, edgesep: direction === "LR" ? 22 : 10, ranksep: direction === "LR" ? 56 : 44, marginx: 16, marginy: 16 });
  plan.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) plan.setNode(node.id, { width, height: HEIGHT });
  graph.edges.forEach((edge, n) => {
    if (edge.source === edge.target) return;
    plan.setEdge(edge.source, edge.target, { width: 24 + 6.5 * labelOf(edge).length, height: 20, labelpos: "c" }, String(n));
  });
  place(plan);
  return {
    nodes: graph.nodes.map((node) => ({ node, at: corner(plan.node(node.id) as Point, width) })),
    edges: graph.edges.map((edge, n) => {
      if (edge.source === edge.target) return { id: `e${n}`, edge, ...loop(plan.node(edge.source) as Point) };
      const { points, x, y } = plan.edge(edge.source, edge.target, String(n)) as Routed;
      const begin = side(plan.node(edge.source) as Point, points[1], direction);
      const end = side(plan.node(edge.target) as Point, points.at(-2), direction);
      return { id: `e${n}`, edge, path: rounded([begin, ...points.slice(1, -1), end]), label: { x, y } };
    }),
  };
}

/** The label has a place of its own on the way, so no two ways share one, not even there and back. */
interface Routed extends Point {
  readonly points: readonly Point[];
}

function corner(center: Point, width: number): Point {
  return { x: center.x - width / 2, y: center.y - HEIGHT / 2 };
}

/** A line through all the points, which go around the nodes, with its corners cut off. */
export function rounded(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M ${at(first)}`;
  rest.forEach((point, n) => {
    const next = rest[n + 1];
    const before = rest[n - 1] ?? first;
    path += next ? ` L ${at(towards(point, before))} Q ${at(point)} ${at(towards(point, next))}` : ` L ${at(point)}`;
  });
  return path;
}

/** Where a way leaves or enters a node: on the side that faces the next rank, so it crosses no node of its own rank. */
function side(center: Point, next: Point | undefined, direction: Direction): Point {
  const dx = (next?.x ?? center.x) - center.x;
  const dy = (next?.y ?? center.y) - center.y;
  return direction === "LR"
    ? { x: center.x + Math.sign(dx) * (WIDTHS.LR / 2), y: center.y + bounded(dy / 4, HEIGHT / 3) }
    : { x: center.x + bounded(dx / 4, WIDTHS.TB / 3), y: center.y + Math.sign(dy) * (HEIGHT / 2) };
}

function bounded(value: number, most: number): number {
  return Math.max(-most, Math.min(most, value));
}

function towards(from: Point, to: Point): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const part = Math.min(CORNER, length / 2) / length;
  return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
}

function loop(center: Point): { readonly path: string; readonly label: Point } {
  const top = center.y - HEIGHT / 2;
  const path = `M ${center.x - 26} ${top} C ${center.x - 46} ${top - 40} ${center.x + 46} ${top - 40} ${center.x + 26} ${top}`;
  return { path, label: { x: center.x, y: top - 30 } };
}

function at(point: Point): string {
  return `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
}

/** The word at an arrow: its mark, or what stands in for one. */
export function labelOf(edge: GraphEdge): string {
  return edge.label || WITHOUT_MARK[edge.kind] || "";
}

const WITHOUT_MARK: Record<string, string> = {
  terminate: "reply",
  member: "at once",
  next: "then",
  default: "no signal",
  handoff: "handoff",
  return: "returns",
  delegate: "delegates",
};
