import { describe, expect, test } from "vitest";
import { parseBlocks } from "./blocks";
import { parseInline, type Inline } from "./inline";
import { diffKind, prettyJson, sourceOf } from "./source";

function plain(nodes: readonly Inline[]): string {
  return nodes.map((node) => ("of" in node ? plain(node.of) : node.text)).join("");
}

describe("inline", () => {
  test("emphasis, code, links and images are data", () => {
    expect(parseInline("a **b *c*** `d*` ~~e~~")).toEqual([
      { kind: "text", text: "a " },
      { kind: "strong", of: [{ kind: "text", text: "b " }, { kind: "em", of: [{ kind: "text", text: "c" }] }] },
      { kind: "text", text: " " },
      { kind: "code", text: "d*" },
      { kind: "text", text: " " },
      { kind: "del", of: [{ kind: "text", text: "e" }] },
    ]);
    expect(parseInline("[x](javascript:alert) ![y](https://e/z)")).toEqual([
      { kind: "link", of: [{ kind: "text", text: "x" }], to: "javascript:alert" },
      { kind: "text", text: " " },
      { kind: "image", text: "y", to: "https://e/z" },
    ]);
  });

  test.each(["snake_case_name", "2 * 3 * 4", "**open", "[not a link]", "a ] b", "`open", "\\*", "<b>x</b>", "**", "****", "[[[[[[[[[[[[[[[[x"])(
    "%s loses nothing but what it escapes",
    (text) => expect(plain(parseInline(text))).toBe(text.replace("\\*", "*")),
  );

  test("marks are marks as they are spelled, wherever they stand", () => {
    expect(parseInline("Done **[ done ]**", ["[ done ]"])).toEqual([
      { kind: "text", text: "Done " },
      { kind: "strong", of: [{ kind: "mark", text: "[ done ]" }] },
    ]);
  });

  test.each(["*", "**a", "[", "[a](", "`", "``", "_a ", "~~", "![", "\\", "]("])("%s a hundred thousand times is read to its end", (piece) => {
    // Work that grew with the square of it would take hours.
    expect(parseInline(piece.repeat(100_000)).length).toBeGreaterThan(0);
  });
});

describe("blocks", () => {
  test("headings, lists, quotes, code, tables and rules", () => {
    const kinds = parseBlocks("# a\n\ntext\nmore\n\n- x\n  - y\n- [x] z\n\n> q\n\n```js\n# no\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n---");
    expect(kinds.map((block) => block.kind)).toEqual(["heading", "paragraph", "list", "quote", "code", "table", "rule"]);
    expect(kinds[2]).toMatchObject({ start: null, items: [{ isDone: null, of: [{}, { kind: "list" }] }, { isDone: true }] });
    expect(kinds[4]).toEqual({ kind: "code", language: "js", text: "# no" });
    expect(kinds[5]).toEqual({ kind: "table", head: ["a", "b"], rows: [["1", "2"]] });
  });

  test("an open fence holds the rest, and numbers begin where they begin", () => {
    expect(parseBlocks("~~~\na\n# b")).toEqual([{ kind: "code", language: "", text: "a\n# b" }]);
    expect(parseBlocks("3. c\n4. d")).toMatchObject([{ kind: "list", start: 3, items: [{}, {}] }]);
  });

  test.each(["> ", "- ", "  - a\n", "|", "|-|\n", "```\n", "# ", "1. ", " ", "-", "\n", "-\t"])("%j a hundred thousand times is read to its end", (piece) => {
    expect(parseBlocks(piece.repeat(100_000) + "\nend").length).toBeGreaterThan(0);
  });
});

describe("sources", () => {
  test("a difference and JSON are known without being named", () => {
    expect(sourceOf("@@ -1 +1 @@\n-a\n+b")).toBe("diff");
    expect(sourceOf("- a\n- b")).toBe("text");
    expect(sourceOf('{"a": [1]}')).toBe("json");
    expect(["+a", "-a", "@@ -1 +1 @@", "+++ b", " a"].map(diffKind)).toEqual(["add", "remove", "hunk", "hunk", "same"]);
  });

  test("JSON gets lines, and keeps every number and every text", () => {
    expect(prettyJson('{"n":12345678901234567890.10,"e":{},"l":[],"t":"a,{\\"b: ]"}')).toBe(
      '{\n  "n": 12345678901234567890.10,\n  "e": {},\n  "l": [],\n  "t": "a,{\\"b: ]"\n}',
    );
    expect(prettyJson("[1,2")).toBeNull();
    expect(prettyJson('"text"')).toBeNull();
  });
});
