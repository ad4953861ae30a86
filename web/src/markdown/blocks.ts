/** Markdown blocks, as data. Unknown syntax is a paragraph. */

export type Block =
  | { readonly kind: "paragraph"; readonly text: string }
  | { readonly kind: "heading"; readonly level: number; readonly text: string }
  | { readonly kind: "code"; readonly language: string; readonly text: string }
  | { readonly kind: "quote"; readonly of: readonly Block[] }
  | { readonly kind: "list"; readonly start: number | null; readonly items: readonly Item[] }
  | { readonly kind: "table"; readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] }
  | { readonly kind: "rule" };

export interface Item {
  /** Whether the box is ticked; null without a box. */
  readonly isDone: boolean | null;
  readonly of: readonly Block[];
}

const DEPTH_MAX = 6;
/** Longer lines are plain text: finding their syntax would need backtracking. */
const LINE_MAX = 2_000;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]{0,40})[^`\n]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const QUOTE = /^ {0,3}> ?/;
const LIST_ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])[ \t]+(.*)$/;
const BOX = /^\[([ xX])\][ \t]+/;
const TABLE_LINE = /^[ \t|:-]+$/;

export function parseBlocks(text: string): readonly Block[] {
  return new BlockParser(text.split(/\r\n|\n|\r/), 0).parse();
}

class BlockParser {
  private at = 0;
  private readonly found: Block[] = [];
  private paragraph: string[] = [];

  constructor(
    private readonly lines: readonly string[],
    private readonly depth: number,
  ) {}

  parse(): readonly Block[] {
    while (this.at < this.lines.length) {
      if (!this.line.trim()) this.endParagraph(1);
      else if (!this.takeBlock()) {
        this.paragraph.push(this.line);
        this.at += 1;
      }
    }
    this.endParagraph(0);
    return this.found;
  }

  private get line(): string {
    return this.lines[this.at] ?? "";
  }

  private takeBlock(): boolean {
    if (this.line.length > LINE_MAX) return false;
    return (
      this.takeFence() ||
      this.takeHeading() ||
      this.takeRule() ||
      this.takeTable() ||
      (this.depth < DEPTH_MAX && (this.takeQuote() || this.takeList()))
    );
  }

  private endParagraph(lines: number): void {
    if (this.paragraph.length) this.found.push({ kind: "paragraph", text: this.paragraph.join("\n") });
    this.paragraph = [];
    this.at += lines;
  }

  private add(block: Block, lines: number): true {
    this.endParagraph(lines);
    this.found.push(block);
    return true;
  }

  private takeFence(): boolean {
    const found = FENCE.exec(this.line);
    if (!found) return false;
    const fence = found[1] ?? "";
    let end = this.at + 1;
    while (end < this.lines.length && !isEndOf(fence, this.lines[end] ?? "")) end += 1;
    const text = this.lines.slice(this.at + 1, end).join("\n");
    return this.add({ kind: "code", language: (found[2] ?? "").toLowerCase(), text }, end + 1 - this.at);
  }

  private takeHeading(): boolean {
    const found = HEADING.exec(this.line);
    if (!found) return false;
    return this.add({ kind: "heading", level: (found[1] ?? "").length, text: (found[2] ?? "").trim() }, 1);
  }

  private takeRule(): boolean {
    return RULE.test(this.line) && this.add({ kind: "rule" }, 1);
  }

  private takeTable(): boolean {
    const below = this.lines[this.at + 1] ?? "";
    const isTable = this.line.includes("|") && below.includes("-") && below.length <= LINE_MAX && TABLE_LINE.test(below);
    const head = cellsOf(this.line);
    if (!isTable || cellsOf(below).length !== head.length) return false;
    let end = this.at + 2;
    while (end < this.lines.length && this.lines[end]?.includes("|")) end += 1;
    const rows = this.lines.slice(this.at + 2, end).map((line) => cellsOf(line).slice(0, head.length));
    return this.add({ kind: "table", head, rows }, end - this.at);
  }

  private takeQuote(): boolean {
    if (!QUOTE.test(this.line)) return false;
    let end = this.at;
    while (end < this.lines.length && QUOTE.test(this.lines[end] ?? "")) end += 1;
    const inner = this.lines.slice(this.at, end).map((line) => line.replace(QUOTE, ""));
    return this.add({ kind: "quote", of: new BlockParser(inner, this.depth + 1).parse() }, end - this.at);
  }

  private takeList(): boolean {
    const first = LIST_ITEM.exec(this.line);
    if (!first) return false;
    const indent = (first[1] ?? "").length;
    const start = startOf(first[2] ?? "");
    const items: Item[] = [];
    const from = this.at;
    let at = from;
    for (;;) {
      const found = LIST_ITEM.exec(this.lines[at] ?? "");
      if (!found || (found[1] ?? "").length !== indent || (startOf(found[2] ?? "") === null) !== (start === null)) break;
      const end = this.endOfItem(at, indent);
      items.push(this.itemOf(found[3] ?? "", this.lines.slice(at + 1, end), indent));
      at = this.nextItem(end);
    }
    return this.add({ kind: "list", start, items }, at - from);
  }

  /** Items may be separated: blank lines before another item belong to the list. */
  private nextItem(end: number): number {
    let at = end;
    while (at < this.lines.length && !this.lines[at]?.trim()) at += 1;
    return LIST_ITEM.test(this.lines[at] ?? "") ? at : end;
  }

  /** An item contains the lines indented further than its own marker; a blank line alone does not end it. */
  private endOfItem(at: number, indent: number): number {
    let end = at + 1;
    for (let line = end; line < this.lines.length; line += 1) {
      const text = this.lines[line] ?? "";
      if (!text.trim()) continue;
      if (text.length - text.trimStart().length <= indent) break;
      end = line + 1;
    }
    return end;
  }

  private itemOf(first: string, more: readonly string[], indent: number): Item {
    const box = BOX.exec(first);
    const text = box ? first.slice(box[0].length) : first;
    const depth = Math.min(...more.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length));
    const cut = Number.isFinite(depth) ? depth : indent;
    const inner = new BlockParser([text, ...more.map((line) => line.slice(cut))], this.depth + 1);
    return { isDone: box ? box[1] !== " " : null, of: inner.parse() };
  }
}

function isEndOf(fence: string, line: string): boolean {
  const text = line.trim();
  return text.length >= fence.length && text === fence.charAt(0).repeat(text.length);
}

function startOf(sign: string): number | null {
  return /^\d/.test(sign) ? Number.parseInt(sign, 10) : null;
}

function cellsOf(line: string): readonly string[] {
  const cells = line.trim().replaceAll("\\|", "\u0000").split("|");
  if (!cells[0]?.trim()) cells.shift();
  if (cells.length && !cells[cells.length - 1]?.trim()) cells.pop();
  return cells.map((cell) => cell.replaceAll("\u0000", "|").trim());
}
