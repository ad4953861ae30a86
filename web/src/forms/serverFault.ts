/** Puts what the server says about an answer beside the field that it is about. */
import { below, type Faults } from "./draft";
import type { Shape } from "./shape";

export interface PlacedFault {
  readonly faults: Faults;
  /** What belongs to no field. */
  readonly rest: string;
}

const PART = /^(?:'([^']*)'|item (\d+)) of /;
/** A schema is for programs: after these words comes one. */
const RAW = /a JSON object of the form \{[^]*$/;

export function placedFault(shape: Shape, fault: string): PlacedFault {
  const whole = fault.replace(RAW, "filled in completely");
  const steps: string[] = [];
  let rest = whole;
  for (let found = PART.exec(rest); found; found = PART.exec(rest)) {
    steps.unshift(found[1] ?? String(Number(found[2]) - 1));
    rest = rest.slice(found[0].length);
  }
  const place = placeOf(shape, steps);
  const words = rest.replace(/^the answer /, "");
  const isNowhere = place === null || (place === "" && shape.kind === "group");
  if (isNowhere || words === rest) return { faults: new Map(), rest: whole };
  return { faults: new Map([[place ?? "", `This ${words}.`]]), rest: "" };
}

function placeOf(shape: Shape, steps: readonly string[]): string | null {
  let at: Shape = shape;
  let place = "";
  for (const step of steps) {
    const n: number = at.kind === "group" ? at.fields.findIndex((field) => field.name === step) : Number(step);
    const next: Shape | undefined = at.kind === "group" ? at.fields[n]?.shape : at.kind === "list" ? at.item : undefined;
    if (!next) return null;
    at = next;
    place = below(place, n);
  }
  return place;
}
