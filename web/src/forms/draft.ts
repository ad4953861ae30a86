/** What the user typed into a form, and its value. A group's draft is a list in the order of its fields. */
import { isRecord } from "../api/events";
import type { Field, NumberShape, Shape, TextShape } from "./shape";

export type Draft = string | readonly Draft[];

/** By the place of a field: the indexes of the fields and items down to it, such as `2.0`. */
export type Faults = ReadonlyMap<string, string>;

/** An answer must be filled in. In an approval, a blank argument stays blank. */
export type Purpose = "answer" | "arguments";

export interface DraftResult {
  readonly value: unknown;
  readonly faults: Faults;
}

export const FILL_IN = "Please fill this in.";
const NUMBER = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

export function draftOf(shape: Shape, value: unknown): Draft {
  switch (shape.kind) {
    case "list":
      return Array.isArray(value) ? value.map((each) => draftOf(shape.item, each)) : [];
    case "group":
      return shape.fields.map((field) => draftOf(field.shape, isRecord(value) && Object.hasOwn(value, field.name) ? value[field.name] : undefined));
    case "choice": {
      const at = shape.options.findIndex((each) => JSON.stringify(each) === JSON.stringify(value));
      return at < 0 ? "" : String(at);
    }
    case "json":
      return value === undefined ? "" : JSON.stringify(value, null, 2);
    default:
      return value === undefined || value === null ? "" : String(value);
  }
}

export function blankDraft(shape: Shape): Draft {
  return draftOf(shape, undefined);
}

function isBlank(draft: Draft): boolean {
  return typeof draft === "string" ? !draft.trim() : draft.every(isBlank);
}

/** `proposed` is the value before; it decides what a blank field of an approval means. */
export function readDraft(shape: Shape, draft: Draft, purpose: Purpose = "answer", proposed?: unknown): DraftResult {
  const reader = new DraftReader(purpose);
  const value = reader.value(shape, draft, true, "", proposed);
  return { value, faults: reader.faults };
}

class DraftReader {
  readonly faults = new Map<string, string>();

  constructor(private readonly purpose: Purpose) {}

  value(shape: Shape, draft: Draft, isRequired: boolean, place: string, proposed: unknown): unknown {
    if (isBlank(draft) && !(isRequired && (shape.kind === "group" || shape.kind === "list")))
      return this.blank(shape, draft, isRequired, place, proposed);
    if (shape.kind === "list") return this.list(shape.item, draft, place, proposed, shape.least, shape.most);
    if (shape.kind === "group") return this.group(shape.fields, draft, place, proposed);
    const text = typeof draft === "string" ? draft : "";
    const [value, fault] = readScalar(shape, text);
    if (fault) this.faults.set(place, fault);
    return value;
  }

  private blank(shape: Shape, draft: Draft, isRequired: boolean, place: string, proposed: unknown): unknown {
    if (this.purpose === "arguments" && proposed !== undefined) {
      if (proposed === null) return null;
      if (shape.kind === "text" && !shape.isDate) return typeof draft === "string" ? draft : "";
      if (shape.kind === "list" || shape.kind === "group") return isRecord(proposed) || Array.isArray(proposed) ? emptyValue(shape, proposed) : undefined;
    }
    if (isRequired) this.faults.set(place, FILL_IN);
    return undefined;
  }

  private list(item: Shape, draft: Draft, place: string, proposed: unknown, least: number | null, most: number | null): unknown {
    const drafts = typeof draft === "string" ? [] : draft;
    const before: readonly unknown[] = Array.isArray(proposed) ? proposed : [];
    const fallback = this.purpose === "arguments" && item.kind === "text" ? "" : undefined;
    const values = drafts.map((each, n) => this.value(item, each, true, childPlace(place, n), before[n] ?? fallback));
    if (least !== null && values.length < least) this.faults.set(place, `Please give at least ${least}.`);
    if (most !== null && values.length > most) this.faults.set(place, `Please give at most ${most}.`);
    return values;
  }

  private group(fields: readonly Field[], draft: Draft, place: string, proposed: unknown): unknown {
    const drafts = typeof draft === "string" ? [] : draft;
    const pairs = fields.map(({ name, shape, isRequired }, n) => {
      const before = isRecord(proposed) && Object.hasOwn(proposed, name) ? proposed[name] : undefined;
      return [name, this.value(shape, drafts[n] ?? blankDraft(shape), isRequired, childPlace(place, n), before)] as const;
    });
    return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
  }
}

/** A value that was empty stays as it was; a cleared value is empty. */
function emptyValue(shape: Shape, proposed: unknown): unknown {
  return shape.kind === "list" ? [] : isRecord(proposed) && Object.keys(proposed).length === 0 ? {} : undefined;
}

export function childPlace(place: string, n: number): string {
  return place ? `${place}.${n}` : String(n);
}

function readScalar(shape: Shape, text: string): readonly [unknown, string] {
  switch (shape.kind) {
    case "text":
      return [text, textFault(shape, text)];
    case "number":
      return [Number(text.trim()), numberFault(shape, text.trim())];
    case "yesno":
      return [text === "true", ""];
    case "choice":
      return [shape.options[Number(text)], ""];
    default:
      return readJson(text);
  }
}

function textFault(shape: TextShape, text: string): string {
  const size = [...text].length;
  if (shape.isDate && !/^\d{4}-\d{2}-\d{2}$/.test(text)) return "Please give a date, such as 2026-11-30.";
  if (shape.least !== null && size < shape.least) return `Please use at least ${shape.least} characters; this has ${size}.`;
  if (shape.most !== null && size > shape.most) return `Please use at most ${shape.most} characters; this has ${size}.`;
  return "";
}

function numberFault(shape: NumberShape, text: string): string {
  const what = shape.isWhole ? "a whole number" : "a number";
  const value = Number(text);
  if (!NUMBER.test(text) || !Number.isFinite(value)) return `Please enter ${what}, such as 12.`;
  if (shape.isWhole && !Number.isInteger(value)) return `Please enter ${what}, without a fraction.`;
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return "This number is too large for a form.";
  if (shape.least !== null && value < shape.least) return `Must be at least ${shape.least}.`;
  if (shape.most !== null && value > shape.most) return `Must be at most ${shape.most}.`;
  if (shape.above !== null && value <= shape.above) return `Must be more than ${shape.above}.`;
  return shape.below !== null && value >= shape.below ? `Must be less than ${shape.below}.` : "";
}

function readJson(text: string): readonly [unknown, string] {
  try {
    return [JSON.parse(text) as unknown, ""];
  } catch {
    return [undefined, "This is not valid JSON. A text needs quotes, such as \"blue\"."];
  }
}

/** Whether a value has whole numbers that a browser rounds: such a value must not be sent back. */
export function hasRoundedNumbers(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(hasRoundedNumbers);
}
