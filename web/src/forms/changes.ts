/** The differences between the proposed and the edited values. */
import { isRecord } from "../api/events";

export interface Change {
  /** The names down to the value, such as `["to", "street"]`. */
  readonly path: readonly string[];
  /** As text; null if absent. */
  readonly before: string | null;
  readonly after: string | null;
}

export function changesOf(before: unknown, after: unknown, path: readonly string[] = []): readonly Change[] {
  if (isRecord(before) && isRecord(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return names.flatMap((name) => changesOf(ownValue(before, name), ownValue(after, name), [...path, name]));
  }
  if (isSame(before, after)) return [];
  return [{ path, before: asText(before), after: asText(after) }];
}

function ownValue(value: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined;
}

/** Compares by value; the order of names does not count. */
function isSame(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((each, n) => isSame(each, other[n]));
  if (isRecord(one) && isRecord(other)) return changesOf(one, other).length === 0;
  return Object.is(one, other) || (one === 0 && other === 0);
}

function asText(value: unknown): string | null {
  if (value === undefined) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}
