import type { KeyboardEvent } from "react";

/** Ctrl-Enter clicks the submit button of the form. */
export function submitOnCtrlEnter(event: KeyboardEvent<HTMLTextAreaElement>): void {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.currentTarget.form?.querySelector<HTMLButtonElement>("button[type=submit]")?.click();
}
