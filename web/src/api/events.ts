/** One event of a run. The fields after the first five depend on the type; see docs/guide/server.md. */
export interface RunEvent {
  readonly run: string;
  readonly seq: number;
  readonly at: number;
  readonly type: string;
  /** The sub-crews from the root run down to this one; only on events of child runs. */
  readonly path?: readonly string[];
  readonly [field: string]: unknown;
}

/** A piece of a reply that is still streaming. It is not in the journal and has no sequence number. */
export interface Delta {
  readonly run: string;
  readonly type: "model.delta";
  readonly agent: string;
  readonly text: string;
  readonly path?: readonly string[];
}

/** A piece of what a model thinks before it replies. It is not in the journal and has no sequence number. */
export interface ReasoningDelta {
  readonly run: string;
  readonly type: "reasoning.delta";
  readonly agent: string;
  readonly text: string;
  /** The pieces of the reply so far were reasoning too. */
  readonly takes_back?: boolean;
  readonly path?: readonly string[];
}

/** A line by which a tool shows how far it is. It is not in the journal and has no sequence number. */
export interface ToolProgress {
  readonly run: string;
  readonly type: "tool.progress";
  readonly agent: string;
  readonly call: string;
  readonly text: string;
  readonly path?: readonly string[];
}

export type StreamEvent = RunEvent | Delta | ReasoningDelta | ToolProgress;

const DELTA_TYPES: ReadonlySet<string> = new Set(["model.delta", "reasoning.delta", "tool.progress"]);

/** True for what is shown while it happens and never stored. */
export function isDelta(event: StreamEvent): event is Delta | ReasoningDelta | ToolProgress {
  return DELTA_TYPES.has(event.type);
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A field as text, whatever its type. */
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
