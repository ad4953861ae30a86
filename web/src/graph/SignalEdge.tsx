import { BaseEdge, type Edge, type EdgeProps } from "@xyflow/react";
import { labelOf, type PlacedEdge } from "./layout";

export type CrewEdge = Edge<{ readonly placed: PlacedEdge; readonly times: number; readonly isLast: boolean }, "crew">;

/** Draws what the layout says; the ends that the library computes would let two ways cover each other. */
export function SignalEdge({ data, markerEnd }: EdgeProps<CrewEdge>) {
  if (!data) return null;
  const { placed, times, isLast } = data;
  const look = ["edge", `edge-${placed.edge.kind}`, times > 0 && "is-taken", isLast && "is-last"].filter(Boolean).join(" ");
  const label = labelOf(placed.edge);
  return (
    <g className={look}>
      <BaseEdge
        path={placed.path}
        {...(markerEnd ? { markerEnd } : {})}
        label={times > 1 ? `${label} ×${times}` : label}
        labelX={placed.label.x}
        labelY={placed.label.y}
        labelBgPadding={[5, 2]}
        labelBgBorderRadius={4}
      />
    </g>
  );
}
