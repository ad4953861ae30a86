/** What a text is, where nobody says so, and JSON with line breaks. */

const PRETTY_MAX = 200_000;
const DEPTH_MAX = 100;

export type Source = "diff" | "json" | "text";

export function sourceOf(text: string, language = ""): Source {
  if (language === "diff" || language === "patch" || isDiff(text)) return "diff";
  return language === "json" || prettyJson(text) !== null ? "json" : "text";
}

/** A hunk with its header, or the header of a file: single lines with a minus are lists as a rule. */
function isDiff(text: string): boolean {
  return /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@/m.test(text) || /^--- \S[^\n]*\n\+\+\+ \S/m.test(text);
}

export type DiffKind = "add" | "remove" | "place" | "same";

export function diffKind(line: string): DiffKind {
  if (line.startsWith("@@") || line.startsWith("+++ ") || line.startsWith("--- ")) return "place";
  return line.startsWith("+") ? "add" : line.startsWith("-") ? "remove" : "same";
}

/** An object or a list as JSON on several lines, with every number as it was written; null if the text is neither. */
export function prettyJson(text: string): string | null {
  const trimmed = text.trim();
  if (!/^[{[]/.test(trimmed) || trimmed.length > PRETTY_MAX) return null;
  try {
    JSON.parse(trimmed);
  } catch {
    return null;
  }
  return indented(trimmed);
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

function indented(json: string): string | null {
  const tokens = json.match(TOKEN) ?? [];
  const out: string[] = [];
  let depth = 0;
  const newLine = (): void => void out.push("\n", "  ".repeat(depth));
  for (const [n, token] of tokens.entries()) {
    const isEmpty = (token === "{" || token === "[") && /[}\]]/.test(tokens[n + 1] ?? "");
    const closesEmpty = /^[}\]]$/.test(token) && /^[{[]$/.test(tokens[n - 1] ?? "");
    if (/^[}\]]$/.test(token) && !closesEmpty) {
      depth -= 1;
      newLine();
    }
    out.push(token === ":" ? ": " : token);
    if (/^[{[]$/.test(token) && !isEmpty) {
      depth += 1;
      if (depth > DEPTH_MAX) return null;
      newLine();
    } else if (token === ",") newLine();
  }
  return out.join("");
}
