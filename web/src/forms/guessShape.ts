/** Fields for values without a schema: arguments that a model made up, or of a removed tool. */
import { isRecord } from "../api/events";
import { FREE_TEXT, type Field, type GroupShape, type Shape } from "./shape";

const COMMON = { title: "", description: "" };
const DEPTH_MAX = 8;

/** The group of a tool's arguments: its parameters, and the extra ones that the model gave. */
export function argumentsShape(shape: Shape, given: Readonly<Record<string, unknown>>): GroupShape {
  const known = shape.kind === "group" ? shape.fields : [];
  const fields = known.map((field) =>
    Object.hasOwn(given, field.name) ? { ...field, shape: fitShape(field.shape, given[field.name], 0) } : field,
  );
  const names = new Set(known.map((field) => field.name));
  const more = Object.keys(given).filter((name) => !names.has(name));
  return { ...COMMON, kind: "group", fields: [...fields, ...more.map((name) => guessField(name, given[name], 0))] };
}

function guessField(name: string, value: unknown, depth: number): Field {
  return { name, shape: guessShape(value, depth), isRequired: false };
}

export function guessShape(value: unknown, depth = 0): Shape {
  if (typeof value === "string") return { ...FREE_TEXT, isLong: value.length > 60 || value.includes("\n") };
  if (typeof value === "number")
    return { ...COMMON, kind: "number", isWhole: false, least: null, most: null, above: null, below: null };
  if (typeof value === "boolean") return { ...COMMON, kind: "yesno" };
  if (depth >= DEPTH_MAX) return { ...COMMON, kind: "json" };
  if (Array.isArray(value) && value.length && value.every((each) => typeof each === "string"))
    return { ...COMMON, kind: "list", item: { ...FREE_TEXT, isLong: false }, least: null, most: null };
  if (isRecord(value) && Object.keys(value).length) {
    const fields = Object.keys(value).map((name) => guessField(name, value[name], depth + 1));
    return { ...COMMON, kind: "group", fields };
  }
  return { ...COMMON, kind: "json" };
}

/** The shape itself if the value fits it; else JSON, so that nothing of the value is lost. */
export function fitShape(shape: Shape, value: unknown, depth: number): Shape {
  if (value === undefined || value === null) return shape;
  const json: Shape = { kind: "json", title: shape.title, description: shape.description };
  switch (shape.kind) {
    case "text":
      if (typeof value !== "string" || (shape.isDate && !/^\d{4}-\d{2}-\d{2}$/.test(value))) return json;
      return { ...shape, isLong: shape.isLong && (value.length > 60 || value.includes("\n")) };
    case "number":
      return typeof value === "number" ? shape : json;
    case "yesno":
      return typeof value === "boolean" ? shape : json;
    case "choice":
      return shape.options.some((each) => JSON.stringify(each) === JSON.stringify(value)) ? shape : json;
    case "list":
      return Array.isArray(value) && value.every((each) => fitShape(shape.item, each, depth + 1).kind === shape.item.kind)
        ? shape
        : json;
    case "group":
      return isRecord(value) && depth < DEPTH_MAX ? fitGroup(shape, value, depth) : json;
    case "json":
      return shape;
  }
}

function fitGroup(shape: GroupShape, value: Readonly<Record<string, unknown>>, depth: number): Shape {
  const names = new Set(shape.fields.map((field) => field.name));
  const fields = shape.fields.map((field) => ({ ...field, shape: fitShape(field.shape, value[field.name], depth + 1) }));
  const more = Object.keys(value).filter((name) => !names.has(name));
  return { ...shape, fields: [...fields, ...more.map((name) => guessField(name, value[name], depth + 1))] };
}
