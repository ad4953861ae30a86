/** What somebody typed as data: JSON if it is JSON, nothing if it is empty, and else the words. */
export function parsedData(text: string): { data?: unknown } {
  if (!text.trim()) return {};
  try {
    return { data: JSON.parse(text) as unknown };
  } catch {
    return { data: text };
  }
}

export function shownData(broadcast: { readonly [field: string]: unknown }): string {
  const data = broadcast["data"];
  return data === undefined ? "" : typeof data === "string" ? data : JSON.stringify(data);
}
