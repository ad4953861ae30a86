import { BaseEdge, type Edge, type EdgeProps } from "@xyflow/react";
import { labelOf, type EdgeLayout } from "./layout";

export type CrewEdge = Edge<{ readonly layout: EdgeLayout; readonly times: number; readonly isLast: boolean }, "crew">;

/** Draws the path of the layout; with the end points of the library two edges could overlap. */
export function SignalEdge({ data, markerEnd }: EdgeProps<CrewEdge>) {
  if (!data) return null;
  const { layout, times, isLast } = data;
  const look = ["edge", `edge-${layout.edge.kind}`, times > 0 && "is-taken", isLast && "is-last"].filter(Boolean).join(" ");
  const label = labelOf(layout.edge);
  return (
    <g className={look}>
      <BaseEdge
        path={layout.path}
        {...(markerEnd ? { markerEnd } : {})}
        label={times > 1 ? `${label} ×${times}` : label}
        labelX={layout.label.x}
        labelY={layout.label.y}
        labelBgPadding={[5, 2]}
        labelBgBorderRadius={4}
      />
    </g>
  );
}
