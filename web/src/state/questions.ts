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
let seen: Set<string> | null = null;

export async function refreshInbox(): Promise<void> {
  if (isAsking) {
    isStale = true;
    return;
  }
  isAsking = true;
  try {
    const { questions } = await get<QuestionPage>("/v1/questions?limit=1000");
    inbox.set({ questions, isKnown: true, error: "" });
    openNewest(questions);
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
function openNewest(questions: readonly Question[]): void {
  const fresh = seen ? questions.filter((each) => !seen?.has(each.id)) : [];
  seen = new Set(questions.map((each) => each.id));
  const open = asked.get();
  const [first] = fresh;
  if (!open && first && may("answer")) asked.set(first);
}

listen((told: readonly Told[]) => {
  if (told.some((each) => MOVES.includes(each.type))) void refreshInbox();
});
link.watch(() => {
  if (link.get() === "live") void refreshInbox();
});
