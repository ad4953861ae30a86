import { useStore } from "../state/store";
import { theme, setTheme, type Theme } from "../state/theme";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const SIGNS: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };

export function ThemeButton() {
  const chosen = useStore(theme);
  return (
    <button type="button" className="plain" aria-label={`Colours: ${chosen}`} title={`Colours: ${chosen}`} onClick={() => setTheme(NEXT[chosen])}>
      {SIGNS[chosen]}
    </button>
  );
}
