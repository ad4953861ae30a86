/** Light or dark: what somebody chose, and else what the system says. */
import { Store } from "./store";

export type Theme = "system" | "light" | "dark";

const KEPT = "interlock-theme";
const DARK = window.matchMedia("(prefers-color-scheme: dark)");

export const theme = new Store<Theme>(kept());
/** What is seen at last, for what is drawn on a canvas. */
export const shades = new Store<"light" | "dark">("light");

export function wear(chosen: Theme): void {
  document.documentElement.dataset["theme"] = chosen;
  localStorage.setItem(KEPT, chosen);
  theme.set(chosen);
  shade();
}

function shade(): void {
  const chosen = theme.get();
  shades.set(chosen === "system" ? (DARK.matches ? "dark" : "light") : chosen);
}

function kept(): Theme {
  const found = localStorage.getItem(KEPT);
  return found === "light" || found === "dark" ? found : "system";
}

DARK.addEventListener("change", shade);
wear(theme.get());
