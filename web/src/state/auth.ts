/** The session of this browser: signing in and out, and its scopes. */
import { get, post, ApiError, remove, UNREACHABLE, errorMessage } from "../api/client";
import type { Session } from "../api/types";
import { forgetDrafts } from "./drafts";
import { connect, disconnect, connection } from "./eventStream";
import { Store, useStore } from "./store";

export type AuthState =
  | { readonly status: "signed-out"; readonly reason: string }
  | { readonly status: "checking" }
  | { readonly status: "signed-in"; readonly scopes: readonly string[] };

export type Scope = "read" | "run" | "answer" | "approve" | "metrics" | "admin";

export const auth = new Store<AuthState>({ status: "checking" });

const CODE_FRAGMENT = "#code=";

/** The code is in the fragment, which no request contains; it is removed from the address before it is used. */
export async function startSession(): Promise<void> {
  const code = location.hash.startsWith(CODE_FRAGMENT) ? location.hash.slice(CODE_FRAGMENT.length) : "";
  if (code) history.replaceState(null, "", "#/runs");
  try {
    setSignedIn(code ? await post<Session>("/v1/session", { code: decodeURIComponent(code) }) : await get("/v1/session"));
  } catch (error) {
    if (code && (await resumeSession())) return;
    if (error === UNREACHABLE) setTimeout(() => void startSession(), 1_000);
    setSignedOut(error === UNREACHABLE ? UNREACHABLE.message : code ? CODE_USED_MESSAGE : "");
  }
}

const CODE_USED_MESSAGE = "The code in this address was already used, or has expired.";

/** A used code does no harm in a browser that is signed in. */
async function resumeSession(): Promise<boolean> {
  try {
    setSignedIn(await get<Session>("/v1/session"));
    return true;
  } catch {
    return false;
  }
}

export async function signInWithKey(key: string): Promise<void> {
  try {
    setSignedIn(await post<Session>("/v1/session", { key }));
  } catch (error) {
    const isWrong = error instanceof ApiError && error.status === 401;
    setSignedOut(isWrong ? "This is not the key of this server." : error instanceof Error ? error.message : String(error));
  }
}

export async function signOut(): Promise<void> {
  const reason = await remove("/v1/session").then(() => "", signOutError);
  disconnect();
  forgetDrafts();
  setSignedOut(reason);
}

/** Without a session there is nothing to close; otherwise the user must know that it is still open. */
function signOutError(error: unknown): string {
  const isOver = error instanceof ApiError && error.status === 401;
  return isOver ? "" : `Your session could not be closed, sign in and sign out again: ${errorMessage(error)}`;
}

/** Without `read` there is nothing to show, so such a key cannot sign in. */
function setSignedIn(session: Session): void {
  if (!session.scopes.includes("read")) {
    void remove("/v1/session").catch(() => undefined);
    return setSignedOut(missingScopeMessage("read"));
  }
  auth.set({ status: "signed-in", scopes: session.scopes });
  connect();
}

function setSignedOut(reason: string): void {
  auth.set({ status: "signed-out", reason });
}

export function hasScope(scope: Scope): boolean {
  const now = auth.get();
  return now.status === "signed-in" && now.scopes.includes(scope);
}

export function useHasScope(scope: Scope): boolean {
  useStore(auth);
  return hasScope(scope);
}

export function missingScopeMessage(scope: Scope): string {
  return `Your key lacks the scope ${scope}.`;
}

connection.subscribe(() => {
  if (connection.get() === "signed-out" && auth.get().status === "signed-in") setSignedOut("Your session has ended.");
});
