/** Data that the user typed: JSON if it parses, nothing if empty, else the text. */
export function parseData(text: string): { data?: unknown } {
  if (!text.trim()) return {};
  try {
    return { data: JSON.parse(text) as unknown };
  } catch {
    return { data: text };
  }
}

export function formatData(broadcast: { readonly [field: string]: unknown }): string {
  const data = broadcast["data"];
  return data === undefined ? "" : typeof data === "string" ? data : JSON.stringify(data);
}
