import type { ReactNode } from "react";
import { inbox } from "../state/questions";
import { placeOf, usePlace } from "../state/router";
import { entry, leave } from "../state/session";
import { useStore } from "../state/store";
import { Connection } from "./Connection";
import { ThemeButton } from "./ThemeButton";

const PLACES = [
  ["runs", "Runs"],
  ["questions", "Questions"],
  ["crews", "Crews"],
  ["broadcasts", "Broadcasts"],
  ["usage", "Usage"],
] as const;

export function Shell({ children }: { children: ReactNode }) {
  const [here = "runs"] = usePlace();
  return (
    <>
      <a
        className="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        Skip to the content
      </a>
      <header className="top">
        <a className="brand" href={placeOf("runs")}>
          Interlock
        </a>
        <nav aria-label="Screens">
          {PLACES.map(([place, title]) => (
            <a key={place} href={placeOf(place)} aria-current={here === place ? "page" : undefined}>
              {title}
              {place === "questions" && <Waiting />}
            </a>
          ))}
        </nav>
        <div className="top-end">
          <Connection />
          <ThemeButton />
          <button type="button" className="plain" onClick={() => void leave()}>
            Sign out
          </button>
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        <Allowed />
        {children}
      </main>
    </>
  );
}

const SCOPES = ["read", "run", "answer", "admin"];

/** Says so where the key may not do everything: a button that is greyed out needs a reason. */
function Allowed() {
  const now = useStore(entry);
  if (now.at !== "inside" || SCOPES.every((scope) => now.scopes.includes(scope))) return null;
  return (
    <p className="allowed" role="note">
      Your key has the {now.scopes.length === 1 ? "scope" : "scopes"} {now.scopes.join(", ")}. What needs another one is greyed out.
    </p>
  );
}

function Waiting() {
  const { questions } = useStore(inbox);
  if (!questions.length) return null;
  return (
    <span className="count" aria-label={`${questions.length} open`}>
      {questions.length}
    </span>
  );
}
