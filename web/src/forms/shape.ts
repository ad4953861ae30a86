/** The shape of a form, read once from a JSON schema of the server. */
import { isRecord } from "../api/events";

export type Schema = Readonly<Record<string, unknown>>;

interface Common {
  readonly title: string;
  readonly description: string;
}

export interface TextShape extends Common {
  readonly kind: "text";
  readonly isDate: boolean;
  readonly isLong: boolean;
  readonly least: number | null;
  readonly most: number | null;
  readonly pattern: string;
}

export interface NumberShape extends Common {
  readonly kind: "number";
  readonly isWhole: boolean;
  readonly least: number | null;
  readonly most: number | null;
  readonly above: number | null;
  readonly below: number | null;
}

export interface ListShape extends Common {
  readonly kind: "list";
  readonly item: Shape;
  readonly least: number | null;
  readonly most: number | null;
}

export interface GroupShape extends Common {
  readonly kind: "group";
  readonly fields: readonly Field[];
}

export interface ChoiceShape extends Common {
  readonly kind: "choice";
  readonly options: readonly unknown[];
}

/** `json`: a value that no field fits. */
export interface PlainShape extends Common {
  readonly kind: "yesno" | "json";
}

export type Shape = TextShape | NumberShape | ListShape | GroupShape | ChoiceShape | PlainShape;

export interface Field {
  readonly name: string;
  readonly shape: Shape;
  readonly isRequired: boolean;
}

const DEPTH_MAX = 8;
const LONG_FROM = 200;

/** `untyped` is the meaning of a schema without a type: text for an answer, anything for a tool. */
export function shapeOf(schema: Schema, untyped: "text" | "json"): Shape {
  return new SchemaReader(schema, untyped).shape(schema, 0);
}

class SchemaReader {
  constructor(
    private readonly root: Schema,
    private readonly untyped: "text" | "json",
  ) {}

  shape(given: Schema, depth: number): Shape {
    const schema = this.resolve(given, 0);
    const common = { title: textAt(schema, "title"), description: textAt(given, "description") || textAt(schema, "description") };
    const options = optionsOf(schema);
    if (options) return { ...common, kind: "choice", options };
    if (depth > DEPTH_MAX) return { ...common, kind: "json" };
    const type = typeOf(schema) ?? (this.untyped === "text" ? "string" : "");
    if (type === "string") return textShape(schema, common);
    if (type === "integer" || type === "number") return numberShape(schema, common, type === "integer");
    if (type === "boolean") return { ...common, kind: "yesno" };
    if (type === "array") return this.list(schema, common, depth);
    const hasFields = isRecord(schema["properties"]) && Object.keys(schema["properties"]).length > 0;
    return type === "object" && hasFields ? this.group(schema, common, depth) : { ...common, kind: "json" };
  }

  /** Follows references within the schema, and drops the alternative null. */
  private resolve(schema: Schema, steps: number): Schema {
    const target = this.target(textAt(schema, "$ref"));
    if (target && steps < DEPTH_MAX) return this.resolve(target, steps + 1);
    const ways = [schema["anyOf"], schema["oneOf"]].find(Array.isArray)?.filter(isRecord) ?? [];
    const useful = ways.filter((way) => way["type"] !== "null");
    const only = useful.length === 1 ? useful[0] : undefined;
    return only && steps < DEPTH_MAX ? this.resolve({ ...schema, anyOf: undefined, oneOf: undefined, ...only }, steps + 1) : schema;
  }

  private target(ref: string): Schema | null {
    const name = /^#\/\$defs\/(.+)$/.exec(ref)?.[1];
    const defs = this.root["$defs"];
    const found = name !== undefined && isRecord(defs) && Object.hasOwn(defs, name) ? defs[name] : null;
    return isRecord(found) ? found : null;
  }

  private list(schema: Schema, common: Common, depth: number): Shape {
    const items = isRecord(schema["items"]) ? schema["items"] : null;
    const item = items ? this.shape(items, depth + 1) : ({ kind: "json", title: "", description: "" } as const);
    return { ...common, kind: "list", item, least: numberAt(schema, "minItems"), most: numberAt(schema, "maxItems") };
  }

  private group(schema: Schema, common: Common, depth: number): Shape {
    const properties = isRecord(schema["properties"]) ? schema["properties"] : {};
    const required = Array.isArray(schema["required"]) ? schema["required"] : [];
    const fields = Object.entries(properties).map(([name, inner]) => ({
      name,
      shape: this.shape(isRecord(inner) ? inner : {}, depth + 1),
      isRequired: required.includes(name),
    }));
    return { ...common, kind: "group", fields };
  }
}

function typeOf(schema: Schema): string | null {
  const type = schema["type"];
  const found = Array.isArray(type) ? type.filter((each) => each !== "null") : [type];
  return found.length === 1 && typeof found[0] === "string" ? found[0] : null;
}

function optionsOf(schema: Schema): readonly unknown[] | null {
  if (Array.isArray(schema["enum"])) return schema["enum"];
  return Object.hasOwn(schema, "const") ? [schema["const"]] : null;
}

function textShape(schema: Schema, common: Common): TextShape {
  const [least, most] = [numberAt(schema, "minLength"), numberAt(schema, "maxLength")];
  const pattern = textAt(schema, "pattern");
  const isDate = schema["format"] === "date";
  const isLong = !isDate && !pattern && (most === null || most >= LONG_FROM);
  return { ...common, kind: "text", isDate, isLong, least, most, pattern };
}

function numberShape(schema: Schema, common: Common, isWhole: boolean): NumberShape {
  const bounds = { least: numberAt(schema, "minimum"), most: numberAt(schema, "maximum") };
  const outside = { above: numberAt(schema, "exclusiveMinimum"), below: numberAt(schema, "exclusiveMaximum") };
  return { ...common, kind: "number", isWhole, ...bounds, ...outside };
}

function textAt(schema: Schema, key: string): string {
  const value = schema[key];
  return typeof value === "string" ? value : "";
}

function numberAt(schema: Schema, key: string): number | null {
  const value = schema[key];
  return typeof value === "number" ? value : null;
}

export const FREE_TEXT: TextShape = {
  kind: "text", title: "", description: "", isDate: false, isLong: true, least: null, most: null, pattern: "",
};
