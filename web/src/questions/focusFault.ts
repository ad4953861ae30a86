import type { Faults } from "../forms/draft";

/** Focuses the first field with a fault. */
export function focusFault(form: string, faults: Faults): void {
  const [place] = [...faults.keys()];
  const field = document.getElementById(`${form}-${place || "whole"}`);
  const radio = field?.querySelector<HTMLElement>("input[type=radio]");
  (radio ?? field)?.focus();
}
