import type { Faults } from "../forms/draft";

/** Leads to the first field that has something wrong, once the page shows it. */
export function focusFault(form: string, faults: Faults): void {
  const [place] = [...faults.keys()];
  const field = document.getElementById(`${form}-${place || "whole"}`);
  const radio = field?.querySelector<HTMLElement>("input[type=radio]");
  (radio ?? field)?.focus();
}
