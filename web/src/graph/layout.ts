/** The layout of a crew's graph. Every edge has its own path, also two edges in opposite directions. */
import { Graph as Layout, layout as computeLayout } from "@dagrejs/dagre";
import type { Graph, GraphEdge, GraphNode } from "../api/types";

type Direction = "LR" | "TB";

// As in the style sheet: a phone shows narrower nodes, ranks from top to bottom.
const WIDTHS: Readonly<Record<Direction, number>> = { LR: 168, TB: 124 };
const HEIGHT = 54;
const CORNER = 28;

export interface Point {
  readonly x: number;
  readonly y: number;
}
export interface NodeLayout {
  readonly node: GraphNode;
  readonly at: Point;
}
export interface EdgeLayout {
  readonly id: string;
  readonly edge: GraphEdge;
  readonly path: string;
  readonly label: Point;
}
export interface GraphLayout {
  readonly nodes: readonly NodeLayout[];
  readonly edges: readonly EdgeLayout[];
}

export function layoutGraph(graph: Graph, direction: Direction): GraphLayout {
  const width = WIDTHS[direction];
  const plan = new Layout({ multigraph: true });
  plan.setGraph({ rankdir: direction, nodesep: direction === "LR" ? 40 : 16, edgesep: direction === "LR" ? 22 : 10, ranksep: direction === "LR" ? 56 : 44, marginx: 16, marginy: 16 });
  plan.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) plan.setNode(node.id, { width, height: HEIGHT });
  graph.edges.forEach((edge, n) => {
    if (edge.source === edge.target) return;
    plan.setEdge(edge.source, edge.target, { width: 24 + 6.5 * labelOf(edge).length, height: 20, labelpos: "c" }, String(n));
  });
  computeLayout(plan);
  return {
    nodes: graph.nodes.map((node) => ({ node, at: corner(plan.node(node.id) as Point, width) })),
    edges: graph.edges.map((edge, n) => {
      if (edge.source === edge.target) return { id: `e${n}`, edge, ...selfLoop(plan.node(edge.source) as Point) };
      const { points, x, y } = plan.edge(edge.source, edge.target, String(n)) as EdgeRoute;
      const begin = borderPoint(plan.node(edge.source) as Point, points[1], direction);
      const end = borderPoint(plan.node(edge.target) as Point, points.at(-2), direction);
      return { id: `e${n}`, edge, path: pathWithRoundCorners([begin, ...points.slice(1, -1), end]), label: { x, y } };
    }),
  };
}

/** The label has its own position on the route, so that no two routes overlap. */
interface EdgeRoute extends Point {
  readonly points: readonly Point[];
}

function corner(center: Point, width: number): Point {
  return { x: center.x - width / 2, y: center.y - HEIGHT / 2 };
}

/** A line through all points, with rounded corners. */
export function pathWithRoundCorners(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M ${formatPoint(first)}`;
  rest.forEach((point, n) => {
    const next = rest[n + 1];
    const before = rest[n - 1] ?? first;
    path += next ? ` L ${formatPoint(pointTowards(point, before))} Q ${formatPoint(point)} ${formatPoint(pointTowards(point, next))}` : ` L ${formatPoint(point)}`;
  });
  return path;
}

/** Where an edge meets a node: on the side of the next rank, so that it crosses no node of its own rank. */
function borderPoint(center: Point, next: Point | undefined, direction: Direction): Point {
  const dx = (next?.x ?? center.x) - center.x;
  const dy = (next?.y ?? center.y) - center.y;
  return direction === "LR"
    ? { x: center.x + Math.sign(dx) * (WIDTHS.LR / 2), y: center.y + clamp(dy / 4, HEIGHT / 3) }
    : { x: center.x + clamp(dx / 4, WIDTHS.TB / 3), y: center.y + Math.sign(dy) * (HEIGHT / 2) };
}

function clamp(value: number, most: number): number {
  return Math.max(-most, Math.min(most, value));
}

function pointTowards(from: Point, to: Point): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const part = Math.min(CORNER, length / 2) / length;
  return { x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part };
}

function selfLoop(center: Point): { readonly path: string; readonly label: Point } {
  const top = center.y - HEIGHT / 2;
  const path = `M ${center.x - 26} ${top} C ${center.x - 46} ${top - 40} ${center.x + 46} ${top - 40} ${center.x + 26} ${top}`;
  return { path, label: { x: center.x, y: top - 30 } };
}

function formatPoint(point: Point): string {
  return `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
}

/** The label of an edge: its signal, or the default for its kind. */
export function labelOf(edge: GraphEdge): string {
  return edge.label || DEFAULT_LABELS[edge.kind] || "";
}

const DEFAULT_LABELS: Record<string, string> = {
  terminate: "reply",
  member: "in parallel",
  next: "then",
  default: "no signal",
  handoff: "handoff",
  return: "returns",
  delegate: "delegates",
};
