/** What people are asked, and whether it was just asked. */
import { get, wordsOf } from "../api/client";
import { isDelta, textOf, type Told } from "../api/events";
import type { Question, QuestionPage } from "../api/types";
import { link, listen } from "./live";
import { may } from "./session";
import { Store } from "./store";

export interface Inbox {
  readonly questions: readonly Question[];
  readonly isKnown: boolean;
  readonly error: string;
}

export const inbox = new Store<Inbox>({ questions: [], isKnown: false, error: "" });
/** The question that the dialog shows. */
export const asked = new Store<Question | null>(null);

const MOVES = ["input.requested", "input.given", "run.paused", "run.resumed", "run.finished"];
let isAsking = false;
let isStale = false;
/** Tokens of questions that this page heard being asked, and did not show yet. */
const fresh = new Set<string>();

export async function refreshInbox(): Promise<void> {
  if (isAsking) {
    isStale = true;
    return;
  }
  isAsking = true;
  try {
    const { questions } = await get<QuestionPage>("/v1/questions?limit=1000");
    inbox.set({ questions, isKnown: true, error: "" });
    openNext();
  } catch (error) {
    inbox.set({ ...inbox.get(), error: wordsOf(error) });
  }
  isAsking = false;
  if (isStale) {
    isStale = false;
    void refreshInbox();
  }
}

/** A question that comes while somebody looks who may answer opens the dialog; those that waited before are in the inbox. */
function openNext(): void {
  const next = inbox.get().questions.find((each) => fresh.has(each.token));
  if (asked.get() || !next || !may("answer")) return;
  fresh.delete(next.token);
  asked.set(next);
}

/** What came while somebody answered is next. */
export function answered(): void {
  asked.set(null);
  openNext();
}

/** Somebody wants to be left alone: whatever waits stays in the inbox. */
export function postponed(): void {
  asked.set(null);
  fresh.clear();
}

listen((told: readonly Told[]) => {
  for (const each of told) if (!isDelta(each) && each.type === "input.requested") fresh.add(textOf(each, "token"));
  if (told.some((each) => MOVES.includes(each.type))) void refreshInbox();
});
link.watch(() => {
  if (link.get() === "live") void refreshInbox();
});
