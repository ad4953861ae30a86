import type { KeyboardEvent } from "react";

/** Ctrl and Enter press the button of the form, if it can be pressed. */
export function sendByKeys(event: KeyboardEvent<HTMLTextAreaElement>): void {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.currentTarget.form?.querySelector<HTMLButtonElement>("button[type=submit]")?.click();
}
