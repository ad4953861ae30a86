import { useStore } from "../state/store";
import { theme, wear, type Theme } from "../state/theme";

const NEXT: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const SIGNS: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };

export function ThemeButton() {
  const worn = useStore(theme);
  return (
    <button type="button" className="plain" aria-label={`Colours: ${worn}`} title={`Colours: ${worn}`} onClick={() => wear(NEXT[worn])}>
      {SIGNS[worn]}
    </button>
  );
}
