/** What people are asked, and whether it was just asked. */
import { get, wordsOf } from "../api/client";
import type { Told } from "../api/events";
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
let shown: Set<string> | null = null;

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

/** Those that waited when the page came up are in the inbox; one that comes while somebody looks who may answer opens the dialog. */
function openNext(): void {
  const { questions } = inbox.get();
  shown ??= new Set(questions.map((each) => each.id));
  const next = questions.find((each) => !shown?.has(each.id));
  if (asked.get() || !next || !may("answer")) return;
  shown.add(next.id);
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
  shown = null;
  openNext();
}

listen((told: readonly Told[]) => {
  if (told.some((each) => MOVES.includes(each.type))) void refreshInbox();
});
link.watch(() => {
  if (link.get() === "live") void refreshInbox();
});
