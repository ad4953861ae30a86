/** Hints for what a field accepts. */
import type { Shape } from "./shape";

export function hintOf(shape: Shape): string {
  switch (shape.kind) {
    case "number":
      return `${shape.isWhole ? "A whole number" : "A number"}${inclusiveBounds(shape.least, shape.most)}${exclusiveBounds(shape.above, shape.below)}.`;
    case "text":
      if (shape.isDate) return "A date.";
      return [sizeLimits(shape.least, shape.most, "characters"), shape.pattern && `Must match the pattern ${shape.pattern}`].filter(Boolean).join(" ");
    case "list":
      return sizeLimits(shape.least, shape.most, "entries");
    case "json":
      return "Written as JSON, such as [\"blue\", 3].";
    default:
      return "";
  }
}

function inclusiveBounds(least: number | null, most: number | null): string {
  if (least !== null && most !== null) return ` from ${least} to ${most}`;
  return least !== null ? `, at least ${least}` : most !== null ? `, at most ${most}` : "";
}

function exclusiveBounds(above: number | null, below: number | null): string {
  return (above !== null ? `, more than ${above}` : "") + (below !== null ? `, less than ${below}` : "");
}

function sizeLimits(least: number | null, most: number | null, what: string): string {
  if (least && most !== null) return `${least} to ${most} ${what}.`;
  return least ? `At least ${least} ${what}.` : most !== null ? `At most ${most} ${what}.` : "";
}
