/** The questions to people: the open ones, the new ones, and the one in the drawer. No question opens by itself. */
import { get, errorMessage } from "../api/client";
import { isDelta, textOf, type StreamEvent } from "../api/events";
import type { Question, QuestionPage } from "../api/types";
import { connection, subscribe } from "./eventStream";
import { hasScope } from "./auth";
import { Store } from "./store";

export interface Inbox {
  readonly questions: readonly Question[];
  readonly isKnown: boolean;
  readonly error: string;
}

export const inbox = new Store<Inbox>({ questions: [], isKnown: false, error: "" });
/** The question in the drawer. Only a click or a key sets it. */
export const currentQuestion = new Store<Question | null>(null);
/** Keys of questions that arrived while this page was open, until they are opened, dismissed or answered. */
export const noticeKeys = new Store<readonly string[]>([]);

/** The list is asked for again by itself after a failure: nothing else may happen for hours. */
const RETRY_MS = 2_000;
const INBOX_EVENTS = ["input.requested", "input.given", "input.expired", "run.paused", "run.resumed", "run.finished"];
let isLoading = false;
let isStale = false;
/** Tokens of questions that the stream announced and the list does not contain yet. */
const unlistedTokens = new Set<string>();

export async function refreshInbox(): Promise<void> {
  if (isLoading) {
    isStale = true;
    return;
  }
  isLoading = true;
  try {
    const { questions } = await get<QuestionPage>("/v1/questions?limit=1000");
    inbox.set({ questions, isKnown: true, error: "" });
    updateNotices(questions);
  } catch (error) {
    inbox.set({ ...inbox.get(), error: errorMessage(error) });
    if (connection.get() === "live") setTimeout(() => void refreshInbox(), RETRY_MS);
  }
  isLoading = false;
  if (isStale) {
    isStale = false;
    void refreshInbox();
  }
}

/** Announces new questions to users who may answer, and removes answered ones. */
function updateNotices(questions: readonly Question[]): void {
  const news = questions.filter((each) => unlistedTokens.has(each.token)).map((each) => each.key);
  for (const each of questions) unlistedTokens.delete(each.token);
  if (!hasScope("answer")) return;
  const before = noticeKeys.get();
  const keys = new Set([...news, ...before]);
  keys.delete(currentQuestion.get()?.key ?? "");
  const after = questions.map((each) => each.key).filter((key) => keys.has(key));
  if (after.join("\n") !== before.join("\n")) noticeKeys.set(after);
}

/** Opens the drawer; the draft of the question before stays. */
export function openQuestion(question: Question): void {
  currentQuestion.set(question);
  dismissNotice(question.key);
}

export function closeQuestion(): void {
  currentQuestion.set(null);
}

/** The question stays in the inbox. */
export function dismissNotice(key: string): void {
  noticeKeys.set(noticeKeys.get().filter((each) => each !== key));
}

subscribe((events: readonly StreamEvent[]) => {
  for (const each of events) if (!isDelta(each) && each.type === "input.requested") unlistedTokens.add(textOf(each, "token"));
  if (events.some((each) => INBOX_EVENTS.includes(each.type))) void refreshInbox();
});
connection.subscribe(() => {
  if (connection.get() === "live") void refreshInbox();
});
