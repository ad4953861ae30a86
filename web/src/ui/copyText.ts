/** Copies a text to the clipboard. A page without TLS has no clipboard API: there a hidden field is copied. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyByField(text);
  }
}

function copyByField(text: string): boolean {
  const before = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "off-screen";
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isCopied;
}
