/** One thing that happened in a run. The fields beyond the first five depend on the type; see docs/guide/server.md. */
export interface RunEvent {
  readonly run: string;
  readonly seq: number;
  readonly at: number;
  readonly type: string;
  /** The sub-crews from the outermost run down to this one; only on events of runs below another. */
  readonly path?: readonly string[];
  readonly [field: string]: unknown;
}

/** A piece of a reply that is still being said. It is in no journal and has no number. */
export interface Delta {
  readonly run: string;
  readonly type: "model.delta";
  readonly agent: string;
  readonly text: string;
  readonly path?: readonly string[];
}

export type Told = RunEvent | Delta;

export function isDelta(told: Told): told is Delta {
  return told.type === "model.delta";
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A field as text, whatever it holds. */
export function textOf(event: RunEvent, field: string): string {
  const value = event[field];
  return typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value);
}

export function numberOf(event: RunEvent, field: string): number {
  const value = event[field];
  return typeof value === "number" ? value : 0;
}

export function namesOf(event: RunEvent, field: string): readonly string[] {
  const value = event[field];
  return Array.isArray(value) ? value.filter((each): each is string => typeof each === "string") : [];
}
