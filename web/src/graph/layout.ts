/** Where the nodes and arrows of a crew stand. Arrows between the same two nodes keep apart from each other. */
import { Graph as Layout, layout as place } from "@dagrejs/dagre";
import type { Graph, GraphEdge, GraphNode } from "../api/types";

export const WIDTH = 168;
export const HEIGHT = 54;
const APART = 46;

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

export function placed(graph: Graph, direction: "LR" | "TB"): Placed {
  const plan = new Layout({ multigraph: true });
  plan.setGraph({ rankdir: direction, nodesep: 56, ranksep: direction === "LR" ? 150 : 84, marginx: 24, marginy: 24 });
  plan.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) plan.setNode(node.id, { width: WIDTH, height: HEIGHT });
  graph.edges.forEach((edge, n) => plan.setEdge(edge.source, edge.target, { width: 80, height: 18 }, String(n)));
  place(plan);
  const centers = new Map<string, Point>(graph.nodes.map((node) => [node.id, plan.node(node.id) as Point]));
  return {
    nodes: graph.nodes.map((node) => ({ node, at: corner(centers.get(node.id) ?? ORIGIN) })),
    edges: placedEdges(graph.edges, centers),
  };
}

const ORIGIN: Point = { x: 0, y: 0 };

function corner(center: Point): Point {
  return { x: center.x - WIDTH / 2, y: center.y - HEIGHT / 2 };
}

function placedEdges(edges: readonly GraphEdge[], centers: ReadonlyMap<string, Point>): PlacedEdge[] {
  const between = new Map<string, number[]>();
  edges.forEach((edge, n) => {
    const pair = [edge.source, edge.target].sort().join(" ");
    between.set(pair, [...(between.get(pair) ?? []), n]);
  });
  return edges.map((edge, n) => {
    const siblings = between.get([edge.source, edge.target].sort().join(" ")) ?? [n];
    const from = centers.get(edge.source) ?? ORIGIN;
    const to = centers.get(edge.target) ?? ORIGIN;
    const lane = siblings.indexOf(n) - (siblings.length - 1) / 2;
    const drawn = edge.source === edge.target ? loop(from, siblings.indexOf(n)) : curve(from, to, lane * APART, edge.source < edge.target);
    return { id: `e${n}`, edge, ...drawn };
  });
}

/** Bends by the offset to one side of the line, which is the same side seen from either end. */
function curve(from: Point, to: Point, offset: number, isForward: boolean): { path: string; label: Point } {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const side = isForward ? 1 : -1;
  const across = { x: (-(to.y - from.y) / length) * side, y: ((to.x - from.x) / length) * side };
  const middle = { x: (from.x + to.x) / 2 + across.x * offset, y: (from.y + to.y) / 2 + across.y * offset };
  const bend = { x: middle.x + across.x * offset, y: middle.y + across.y * offset };
  const begin = border(shifted(from, across, offset / 3), bend, from);
  const end = border(shifted(to, across, offset / 3), bend, to);
  return { path: `M ${at(begin)} Q ${at(bend)} ${at(end)}`, label: onCurve(begin, bend, end) };
}

function shifted(point: Point, across: Point, offset: number): Point {
  return { x: point.x + across.x * offset, y: point.y + across.y * offset };
}

function onCurve(a: Point, b: Point, c: Point): Point {
  return { x: (a.x + 2 * b.x + c.x) / 4, y: (a.y + 2 * b.y + c.y) / 4 };
}

/** Where the line from inside a node towards a point leaves the node. */
function border(inside: Point, towards: Point, center: Point): Point {
  const dx = towards.x - inside.x;
  const dy = towards.y - inside.y;
  const tx = dx ? ((dx > 0 ? WIDTH / 2 : -WIDTH / 2) - (inside.x - center.x)) / dx : Infinity;
  const ty = dy ? ((dy > 0 ? HEIGHT / 2 : -HEIGHT / 2) - (inside.y - center.y)) / dy : Infinity;
  const t = Math.max(0, Math.min(tx, ty, 1));
  return { x: inside.x + dx * t, y: inside.y + dy * t };
}

function loop(center: Point, n: number): { path: string; label: Point } {
  const top = center.y - HEIGHT / 2;
  const reach = 44 + 26 * n;
  const left = { x: center.x - 26, y: top };
  const right = { x: center.x + 26, y: top };
  const path = `M ${at(left)} C ${left.x - 22} ${top - reach} ${right.x + 22} ${top - reach} ${at(right)}`;
  return { path, label: { x: center.x, y: top - reach * 0.75 } };
}

function at(point: Point): string {
  return `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
}
