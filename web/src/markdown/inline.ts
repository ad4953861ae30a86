/** Inline Markdown, as data. Nothing becomes HTML, no link is followed, and the work is linear. */

export type Inline =
  | { readonly kind: "text" | "code" | "mark"; readonly text: string }
  | { readonly kind: "strong" | "em" | "del"; readonly of: readonly Inline[] }
  | { readonly kind: "link"; readonly of: readonly Inline[]; readonly to: string }
  | { readonly kind: "image"; readonly text: string; readonly to: string };

interface Frame {
  /** The opening marker; empty for the outermost. */
  readonly opener: string;
  readonly of: Inline[];
}

const DEPTH_MAX = 12;
const WORDS = /[^\\`*_~![\]]+/y;
const TARGET = /\]\(([^()\s<>]{1,2000})(?:[ \t]+"[^"\n]{0,200}")?\)/y;
const IMAGE = /!\[([^[\]\n]{0,500})\]\(([^()\s<>]{1,2000})(?:[ \t]+"[^"\n]{0,200}")?\)/y;
const ESCAPED = /\\([!-/:-@[-`{-~])/y;
const DELIMITER = /\*\*|__|~~|\*|_/y;
const KINDS = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" } as const;

/** `marks` are the signals of this text, as spelled in it. */
export function parseInline(text: string, marks: readonly string[] = []): readonly Inline[] {
  return new InlineParser(text, marks).parse();
}

class InlineParser {
  private at = 0;
  private readonly frames: Frame[] = [{ opener: "", of: [] }];
  private readonly codeEnds: ReadonlyMap<number, number>;

  constructor(
    private readonly text: string,
    private readonly marks: readonly string[],
  ) {
    this.codeEnds = codeEndsOf(text);
  }

  parse(): readonly Inline[] {
    while (this.at < this.text.length) {
      this.takeMark() ||
        this.takeEscape() ||
        this.takeCode() ||
        this.takeImage() ||
        this.takeBracket() ||
        this.takeDelimiter() ||
        this.takeWords() ||
        this.addText(this.text[this.at] ?? "", 1);
    }
    while (this.frames.length > 1) this.undoFrame();
    return this.top.of;
  }

  private get top(): Frame {
    return this.frames[this.frames.length - 1] as Frame;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  private add(node: Inline, length: number): true {
    this.top.of.push(node);
    this.at += length;
    return true;
  }

  private addText(text: string, length: number): true {
    pushText(this.top.of, text);
    this.at += length;
    return true;
  }

  private takeMark(): boolean {
    const mark = this.marks.find((each) => this.text.startsWith(each, this.at));
    return mark ? this.add({ kind: "mark", text: mark }, mark.length) : false;
  }

  private takeEscape(): boolean {
    const found = this.match(ESCAPED);
    return found ? this.addText(found[1] ?? "", 2) : false;
  }

  private takeCode(): boolean {
    if (this.text[this.at] !== "`") return false;
    let size = 1;
    while (this.text[this.at + size] === "`") size += 1;
    const end = this.codeEnds.get(this.at);
    if (end === undefined) return this.addText("`".repeat(size), size);
    return this.add({ kind: "code", text: this.text.slice(this.at + size, end) }, end + size - this.at);
  }

  private takeImage(): boolean {
    const found = this.match(IMAGE);
    return found ? this.add({ kind: "image", text: found[1] ?? "", to: found[2] ?? "" }, found[0].length) : false;
  }

  private takeBracket(): boolean {
    if (this.text[this.at] === "[" && this.frames.length < DEPTH_MAX) {
      this.frames.push({ opener: "[", of: [] });
      this.at += 1;
      return true;
    }
    if (this.text[this.at] !== "]" || !this.frames.some((each) => each.opener === "[")) return false;
    while (this.top.opener !== "[") this.undoFrame();
    const found = this.match(TARGET);
    if (!found) {
      this.undoFrame();
      return this.addText("]", 1);
    }
    const { of } = this.frames.pop() as Frame;
    return this.add({ kind: "link", of, to: found[1] ?? "" }, found[0].length);
  }

  private takeDelimiter(): boolean {
    const found = this.match(DELIMITER)?.[0];
    if (!found) return false;
    const before = this.text[this.at - 1] ?? " ";
    // In `**b *c***` the first of three asterisks closes the inner one.
    const isInner = found === this.top.opener + this.top.opener && !/\s/.test(before);
    const sign = isInner ? this.top.opener : found;
    const after = this.text[this.at + sign.length] ?? " ";
    const isWord = sign.startsWith("_");
    const canClose = !/\s/.test(before) && !(isWord && /\w/.test(after));
    const canOpen = !/\s/.test(after) && !(isWord && /\w/.test(before)) && this.frames.length < DEPTH_MAX;
    const isOpen = this.frames.some((each) => each.opener === sign);
    if (isOpen && canClose) return this.closeFrame(sign);
    if (isOpen || !canOpen) return this.addText(sign, sign.length);
    this.frames.push({ opener: sign, of: [] });
    this.at += sign.length;
    return true;
  }

  private closeFrame(sign: string): true {
    while (this.top.opener !== sign) this.undoFrame();
    const { of } = this.frames.pop() as Frame;
    if (!of.length) return this.addText(sign + sign, sign.length);
    return this.add({ kind: KINDS[sign as keyof typeof KINDS], of }, sign.length);
  }

  private takeWords(): boolean {
    const found = this.match(WORDS);
    return found ? this.addText(found[0], found[0].length) : false;
  }

  /** The opening marker was text after all. */
  private undoFrame(): void {
    const { opener, of } = this.frames.pop() as Frame;
    pushText(this.top.of, opener);
    for (const node of of) {
      if (node.kind === "text") pushText(this.top.of, node.text);
      else this.top.of.push(node);
    }
  }
}

function pushText(nodes: Inline[], text: string): void {
  const last = nodes[nodes.length - 1];
  if (last?.kind === "text") nodes[nodes.length - 1] = { kind: "text", text: last.text + text };
  else if (text) nodes.push({ kind: "text", text });
}

/** The end of code that starts with a run of backticks: the next run of the same length. */
function codeEndsOf(text: string): ReadonlyMap<number, number> {
  const ends = new Map<number, number>();
  const next = new Map<number, number>();
  const runs = [...text.matchAll(/`+/g)].reverse();
  for (const run of runs) {
    const end = next.get(run[0].length);
    if (end !== undefined) ends.set(run.index, end);
    next.set(run[0].length, run.index);
  }
  return ends;
}
