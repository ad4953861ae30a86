import { describe, expect, test } from "vitest";
import { changesOf } from "./changes";
import { blankDraft, draftOf, hasRoundedNumbers, readDraft, type Draft } from "./draft";
import { argumentsShape } from "./guessShape";
import { hintOf } from "./hints";
import { locateFault } from "./fieldFault";
import { shapeOf } from "./shape";

const TRIP = shapeOf(
  {
    type: "object",
    required: ["city", "stay"],
    properties: {
      city: { minLength: 2 },
      nights: { type: "integer", minimum: 1, maximum: 30 },
      window: { type: "boolean" },
      class: { enum: ["economy", "business"] },
      stay: { type: "object", required: ["from"], properties: { from: { format: "date" } } },
      tags: { type: "array", items: { type: "string" }, maxItems: 2 },
    },
  },
  "text",
);

const faultsOf = (draft: Draft) => Object.fromEntries(readDraft(TRIP, draft).faults);

describe("a form", () => {
  test("means what was filled in, and leaves out what is blank and optional", () => {
    expect(readDraft(TRIP, ["Roma", " 5 ", "false", "1", ["2026-11-30"], ["a"]])).toEqual({
      value: { city: "Roma", nights: 5, window: false, class: "business", stay: { from: "2026-11-30" }, tags: ["a"] },
      faults: new Map(),
    });
    expect(readDraft(TRIP, ["Roma", "", "", "", ["2026-11-30"], []]).value).toEqual({ city: "Roma", stay: { from: "2026-11-30" } });
  });

  test("says at each field what is wrong", () => {
    expect(faultsOf(blankDraft(TRIP))).toEqual({ "0": "Please fill this in.", "4.0": "Please fill this in." });
    expect(faultsOf(["R", "31", "", "", ["soon"], ["a", "", "c"]])).toEqual({
      "0": "Please use at least 2 characters; this has 1.",
      "1": "Must be at most 30.",
      "4.0": "Please give a date, such as 2026-11-30.",
      "5": "Please give at most 2.",
      "5.1": "Please fill this in.",
    });
    for (const [text, fault] of [["1.5", "without a fraction"], ["1e999", "whole number"], ["0x10", "whole number"], ["99999999999999999999", "too large"]])
      expect(faultsOf(["Roma", text ?? "", "", "", ["2026-11-30"], []])["1"]).toContain(fault);
  });

  test("shows what the server says at the field that it is about, and never a schema", () => {
    expect(locateFault(TRIP, "'from' of 'stay' of the answer should be a date").faults).toEqual(new Map([["4.0", "This should be a date."]]));
    expect(locateFault(TRIP, "item 2 of 'tags' of the answer should have at most 3 characters").faults.get("5.1")).toContain("at most 3");
    expect(locateFault(TRIP, "the store is away")).toEqual({ faults: new Map(), rest: "the store is away" });
    expect(locateFault(TRIP, 'the answer should be a JSON object of the form {"type":"object"}').rest).not.toContain("{");
  });

  test("takes names for names", () => {
    const shape = shapeOf(JSON.parse('{"type": "object", "properties": {"__proto__": {}, "constructor": {}}}') as object as never, "text");
    const { value } = readDraft(shape, ["a", "b"]);
    expect(JSON.stringify(value)).toBe('{"__proto__":"a","constructor":"b"}');
    expect(({} as Record<string, unknown>)["a"]).toBeUndefined();
  });

  test("follows references, nothing-or-something and bounds of tools, and does not follow circles", () => {
    const shape = shapeOf(
      {
        type: "object",
        $defs: { P: { type: "object", properties: { next: { $ref: "#/$defs/P" }, x: { type: "number", exclusiveMinimum: 0 } } } },
        properties: { p: { $ref: "#/$defs/P" }, n: { anyOf: [{ type: "integer" }, { type: "null" }] }, any: {} },
      },
      "json",
    );
    expect(shape.kind === "group" && shape.fields.map((field) => field.shape.kind)).toEqual(["group", "number", "json"]);
    const inner = shape.kind === "group" ? shape.fields[0]?.shape : undefined;
    const x = inner?.kind === "group" ? inner.fields[1]?.shape : undefined;
    expect(x && hintOf(x)).toBe("A number, more than 0.");
  });
});

describe("arguments", () => {
  const GIVEN = { amount: 24, to: { name: "Ada", zip: null }, tags: [], note: "", extra: [1, "a"], flag: true };
  const SCHEMA = { type: "object", properties: { amount: { type: "integer" }, missing: { type: "string" }, note: { type: "string" } } };

  test("that were not edited equal the proposed ones, whatever their schema", () => {
    for (const schema of [SCHEMA, {}, { type: "object", properties: { amount: { type: "string" }, flag: { type: "integer" } } }]) {
      const shape = argumentsShape(shapeOf(schema, "json"), GIVEN);
      const read = readDraft(shape, draftOf(shape, GIVEN), "arguments", GIVEN);
      expect(read.faults.size).toBe(0);
      expect(changesOf(GIVEN, read.value)).toEqual([]);
    }
  });

  test("that were edited differ where they were edited", () => {
    expect(changesOf(GIVEN, { ...GIVEN, amount: 12, to: { name: "Bob", zip: null }, note: undefined, more: "x" })).toEqual([
      { path: ["amount"], before: "24", after: "12" },
      { path: ["to", "name"], before: "Ada", after: "Bob" },
      { path: ["note"], before: "", after: null },
      { path: ["more"], before: null, after: "x" },
    ]);
  });

  test("with numbers that a browser rounds are not edited", () => {
    expect(hasRoundedNumbers(JSON.parse('{"a": [{"b": 12345678901234567890}]}'))).toBe(true);
    expect(hasRoundedNumbers(GIVEN)).toBe(false);
  });
});
