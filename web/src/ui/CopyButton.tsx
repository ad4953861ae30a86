import { useEffect, useState } from "react";
import { copyText } from "./copyText";

const SHOWN_MS = 2_000;

export function CopyButton({ text, what }: { text: string; what: string }) {
  const [state, setState] = useState("");
  useEffect(() => {
    if (!state) return;
    const timer = setTimeout(() => setState(""), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async (): Promise<void> => setState((await copyText(text)) ? "Copied" : "Copying failed");
  return (
    <button type="button" className="copy small plain" aria-label={`Copy ${what}`} onClick={() => void copy()}>
      <span aria-live="polite">{state || "Copy"}</span>
    </button>
  );
}
