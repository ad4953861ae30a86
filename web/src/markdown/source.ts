/** Detects diffs and JSON, and formats JSON with line breaks. */

const PRETTY_MAX = 200_000;
const DEPTH_MAX = 100;

export type Source = "diff" | "json" | "text";

export function sourceOf(text: string, language = ""): Source {
  if (language === "diff" || language === "patch" || isDiff(text)) return "diff";
  return language === "json" || prettyJson(text) !== null ? "json" : "text";
}

/** Needs the header of a hunk or of a file: single lines with a minus are usually lists. */
function isDiff(text: string): boolean {
  return /^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@/m.test(text) || /^--- \S[^\n]*\n\+\+\+ \S/m.test(text);
}

export type DiffKind = "add" | "remove" | "hunk" | "same";

export function diffKind(line: string): DiffKind {
  if (line.startsWith("@@") || line.startsWith("+++ ") || line.startsWith("--- ")) return "hunk";
  return line.startsWith("+") ? "add" : line.startsWith("-") ? "remove" : "same";
}

/** An object or a list as JSON on several lines, numbers as written; null if the text is neither. */
export function prettyJson(text: string): string | null {
  const trimmed = text.trim();
  if (!/^[{[]/.test(trimmed) || trimmed.length > PRETTY_MAX) return null;
  try {
    JSON.parse(trimmed);
  } catch {
    return null;
  }
  return indentJson(trimmed);
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

function indentJson(json: string): string | null {
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
