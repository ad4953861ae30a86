import { useEffect, useState } from "react";

type Theme = "system" | "light" | "dark";
const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const SIGNS: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };
const KEPT = "interlock-theme";

export function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(kept);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem(KEPT, theme);
  }, [theme]);
  return (
    <button type="button" className="plain" aria-label={`Colours: ${theme}`} title={`Colours: ${theme}`} onClick={() => setTheme(NEXT[theme])}>
      {SIGNS[theme]}
    </button>
  );
}

function kept(): Theme {
  const found = localStorage.getItem(KEPT);
  return found === "light" || found === "dark" ? found : "system";
}
