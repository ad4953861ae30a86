/** What people are asked: what is open, what has just come, and which one somebody has opened. Nothing opens by itself. */
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
/** The question in the drawer. A click or a key of a person sets it, and nothing else. */
export const opened = new Store<Question | null>(null);
/** Keys of questions that came while this page was open, until they are opened, dismissed or answered. */
export const announced = new Store<readonly string[]>([]);

const MOVES = ["input.requested", "input.given", "input.expired", "run.paused", "run.resumed", "run.finished"];
let isAsking = false;
let isStale = false;
/** Tokens of questions that this page heard being asked, and that are not listed yet. */
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
    announce(questions);
  } catch (error) {
    inbox.set({ ...inbox.get(), error: wordsOf(error) });
  }
  isAsking = false;
  if (isStale) {
    isStale = false;
    void refreshInbox();
  }
}

/** New ones are announced to people who may answer; those that are answered are announced no more. */
function announce(questions: readonly Question[]): void {
  const news = questions.filter((each) => fresh.has(each.token)).map((each) => each.key);
  for (const each of questions) fresh.delete(each.token);
  if (!may("answer")) return;
  const before = announced.get();
  const keys = new Set([...news, ...before]);
  keys.delete(opened.get()?.key ?? "");
  const after = questions.map((each) => each.key).filter((key) => keys.has(key));
  if (after.join("\n") !== before.join("\n")) announced.set(after);
}

/** Opens the drawer; what stood in it keeps what was typed. */
export function openQuestion(question: Question): void {
  opened.set(question);
  dismissNotice(question.key);
}

export function closeQuestion(): void {
  opened.set(null);
}

/** It stays in the inbox. */
export function dismissNotice(key: string): void {
  announced.set(announced.get().filter((each) => each !== key));
}

listen((told: readonly Told[]) => {
  for (const each of told) if (!isDelta(each) && each.type === "input.requested") fresh.add(textOf(each, "token"));
  if (told.some((each) => MOVES.includes(each.type))) void refreshInbox();
});
link.watch(() => {
  if (link.get() === "live") void refreshInbox();
});
