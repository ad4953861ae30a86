/** Whether this browser was let in, and how it gets in. */
import { get, post, Refused, remove, UNREACHABLE, wordsOf } from "../api/client";
import type { Session } from "../api/types";
import { connect, disconnect, link } from "./live";
import { Store, useStore } from "./store";

export type Entry =
  | { readonly at: "door"; readonly why: string }
  | { readonly at: "asking" }
  | { readonly at: "inside"; readonly scopes: readonly string[] };

export type Scope = "read" | "run" | "answer" | "metrics" | "admin";

export const entry = new Store<Entry>({ at: "asking" });

const CODE = "#code=";

/** The code stands in the fragment, which is sent to nobody; it is taken out of the address before it is used. */
export async function enter(): Promise<void> {
  const code = location.hash.startsWith(CODE) ? location.hash.slice(CODE.length) : "";
  if (code) history.replaceState(null, "", "#/runs");
  try {
    inside(code ? await post<Session>("/v1/session", { code: decodeURIComponent(code) }) : await get("/v1/session"));
  } catch (error) {
    if (code && (await entered())) return;
    if (error === UNREACHABLE) setTimeout(() => void enter(), 1_000);
    outside(error === UNREACHABLE ? UNREACHABLE.message : code ? WORN : "");
  }
}

const WORN = "The code of this address was used before, or is too old.";

/** A used code in the address of a browser that is in already does no harm. */
async function entered(): Promise<boolean> {
  try {
    inside(await get<Session>("/v1/session"));
    return true;
  } catch {
    return false;
  }
}

export async function enterWith(key: string): Promise<void> {
  try {
    inside(await post<Session>("/v1/session", { key }));
  } catch (error) {
    const isWrong = error instanceof Refused && error.status === 401;
    outside(isWrong ? "This is not the key of this server." : error instanceof Error ? error.message : String(error));
  }
}

export async function leave(): Promise<void> {
  const why = await remove("/v1/session").then(() => "", notClosed);
  disconnect();
  outside(why);
}

/** Without a session there is none to close; otherwise nobody should believe that it is. */
function notClosed(error: unknown): string {
  const isOver = error instanceof Refused && error.status === 401;
  return isOver ? "" : `Your session could not be closed, sign in and sign out again: ${wordsOf(error)}`;
}

/** Without `read` there is nothing to show, so such a key stays at the door. */
function inside(session: Session): void {
  if (!session.scopes.includes("read")) {
    void remove("/v1/session").catch(() => undefined);
    return outside(lacking("read"));
  }
  entry.set({ at: "inside", scopes: session.scopes });
  connect();
}

function outside(why: string): void {
  entry.set({ at: "door", why });
}

export function may(scope: Scope): boolean {
  const now = entry.get();
  return now.at === "inside" && now.scopes.includes(scope);
}

export function useMay(scope: Scope): boolean {
  useStore(entry);
  return may(scope);
}

export function lacking(scope: Scope): string {
  return `Your key lacks the scope ${scope}.`;
}

link.watch(() => {
  if (link.get() === "out" && entry.get().at === "inside") outside("Your session is over.");
});
