/** Light or dark: the user's choice, or else the system's. */
import { Store } from "./store";

export type Theme = "system" | "light" | "dark";

const STORAGE_KEY = "interlock-theme";
const DARK = window.matchMedia("(prefers-color-scheme: dark)");

export const theme = new Store<Theme>(loadTheme());
/** The colours in effect, for canvas drawings. */
export const colorScheme = new Store<"light" | "dark">("light");

export function setTheme(chosen: Theme): void {
  document.documentElement.dataset["theme"] = chosen;
  localStorage.setItem(STORAGE_KEY, chosen);
  theme.set(chosen);
  updateColorScheme();
}

function updateColorScheme(): void {
  const chosen = theme.get();
  colorScheme.set(chosen === "system" ? (DARK.matches ? "dark" : "light") : chosen);
}

function loadTheme(): Theme {
  const found = localStorage.getItem(STORAGE_KEY);
  return found === "light" || found === "dark" ? found : "system";
}

DARK.addEventListener("change", updateColorScheme);
setTheme(theme.get());
