import { useRef, useState } from "react";
import { post, Refused, wordsOf } from "../api/client";
import type { Question, RunDetail } from "../api/types";
import { refreshInbox } from "../state/questions";

export interface Answering {
  /** Why the answer was refused, by the server or by the rules of the question. */
  readonly refusal: string;
  readonly send: (answer: string) => Promise<void>;
}

/** Sends an answer. A refused one leaves everything as it was typed. */
export function useAnswering(question: Question, done: () => void): Answering {
  // Not shown by disabling anything: what is disabled loses the focus.
  const isBusy = useRef(false);
  const [refusal, setRefusal] = useState(question.fault);
  const send = async (answer: string): Promise<void> => {
    if (isBusy.current) return;
    isBusy.current = true;
    setRefusal("");
    try {
      const run = await post<RunDetail>(`/v1/questions/${encodeURIComponent(question.id)}/answer`, { answer });
      const again = run.questions.find((each) => each.key === question.key);
      if (again) setRefusal(again.fault || "The answer was not accepted.");
      else done();
    } catch (refused) {
      setRefusal(refusalWords(refused));
    }
    await refreshInbox();
    isBusy.current = false;
  };
  return { refusal, send };
}

function refusalWords(error: unknown): string {
  const isSecond = error instanceof Refused && (error.code === "already-resumed" || error.code === "not-waiting");
  return isSecond ? `This was already answered: ${wordsOf(error)}` : wordsOf(error);
}
