import type { ReactNode } from "react";
import { inbox } from "../state/questions";
import { hrefOf, useRoute } from "../state/router";
import { auth, signOut } from "../state/auth";
import { useStore } from "../state/store";
import { Connection } from "./Connection";
import { ThemeButton } from "./ThemeButton";

const SCREENS = [
  ["runs", "Runs"],
  ["questions", "Questions"],
  ["crews", "Crews"],
  ["broadcasts", "Broadcasts"],
  ["usage", "Usage"],
] as const;

export function Shell({ children }: { children: ReactNode }) {
  const [here = "runs"] = useRoute();
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
        Skip to content
      </a>
      <header className="top">
        <a className="brand" href={hrefOf("runs")}>
          Interlock
        </a>
        <nav aria-label="Screens">
          {SCREENS.map(([screen, title]) => (
            <a key={screen} href={hrefOf(screen)} aria-current={here === screen ? "page" : undefined}>
              {title}
              {screen === "questions" && <QuestionCount />}
            </a>
          ))}
        </nav>
        <div className="top-end">
          <Connection />
          <ThemeButton />
          <button type="button" className="plain" onClick={() => void signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        <ScopeNote />
        {children}
      </main>
    </>
  );
}

const SCOPES = ["read", "run", "answer", "admin"];

/** Names the scopes of a restricted key: a disabled button needs a reason. */
function ScopeNote() {
  const now = useStore(auth);
  if (now.status !== "signed-in" || SCOPES.every((scope) => now.scopes.includes(scope))) return null;
  return (
    <p className="allowed" role="note">
      Your key has the {now.scopes.length === 1 ? "scope" : "scopes"} {now.scopes.join(", ")}. Actions that need another scope are disabled.
    </p>
  );
}

function QuestionCount() {
  const { questions } = useStore(inbox);
  if (!questions.length) return null;
  return (
    <span className="count" aria-label={`${questions.length} open`}>
      {questions.length}
    </span>
  );
}
