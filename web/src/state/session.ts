/** Whether this browser was let in, and how it gets in. */
import { get, post, Refused, remove, UNREACHABLE } from "../api/client";
import type { Session } from "../api/types";
import { connect, disconnect, link } from "./live";
import { Store } from "./store";

export type Entry =
  | { readonly at: "door"; readonly why: string }
  | { readonly at: "asking" }
  | { readonly at: "inside"; readonly scopes: readonly string[] };

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
  await remove("/v1/session").catch(() => undefined);
  disconnect();
  outside("");
}

function inside(session: Session): void {
  entry.set({ at: "inside", scopes: session.scopes });
  connect();
}

function outside(why: string): void {
  entry.set({ at: "door", why });
}

export function may(scopes: readonly string[], scope: string): boolean {
  return scopes.includes(scope) || scopes.includes("admin");
}

link.watch(() => {
  if (link.get() === "out" && entry.get().at === "inside") outside("Your session is over.");
});
