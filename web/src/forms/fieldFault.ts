/** Places the server's fault of an answer at the field that it concerns. */
import { childPlace, type Faults } from "./draft";
import type { Shape } from "./shape";

export interface FieldFault {
  readonly faults: Faults;
  /** The part that belongs to no field. */
  readonly rest: string;
}

const PART = /^(?:'([^']*)'|item (\d+)) of /;
/** A schema is for programs: these words introduce one. */
const RAW = /a JSON object of the form \{[^]*$/;

export function locateFault(shape: Shape, fault: string): FieldFault {
  const whole = fault.replace(RAW, "filled in completely");
  const steps: string[] = [];
  let rest = whole;
  for (let found = PART.exec(rest); found; found = PART.exec(rest)) {
    steps.unshift(found[1] ?? String(Number(found[2]) - 1));
    rest = rest.slice(found[0].length);
  }
  const place = fieldPlaceOf(shape, steps);
  const words = rest.replace(/^the answer /, "");
  const isNowhere = place === null || (place === "" && shape.kind === "group");
  if (isNowhere || words === rest) return { faults: new Map(), rest: whole };
  return { faults: new Map([[place ?? "", `This ${words}.`]]), rest: "" };
}

function fieldPlaceOf(shape: Shape, steps: readonly string[]): string | null {
  let at: Shape = shape;
  let place = "";
  for (const step of steps) {
    const n: number = at.kind === "group" ? at.fields.findIndex((field) => field.name === step) : Number(step);
    const next: Shape | undefined = at.kind === "group" ? at.fields[n]?.shape : at.kind === "list" ? at.item : undefined;
    if (!next) return null;
    at = next;
    place = childPlace(place, n);
  }
  return place;
}
