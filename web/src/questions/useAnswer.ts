import { useRef, useState } from "react";
import { post, ApiError, errorMessage } from "../api/client";
import type { Question, RunDetail } from "../api/types";
import { refreshInbox } from "../state/questions";

export interface AnswerState {
  /** Why the server or the rules of the question refused the answer. */
  readonly refusal: string;
  readonly send: (answer: string) => Promise<void>;
}

/** Sends an answer. After a refusal the form keeps what was typed. */
export function useAnswer(question: Question, done: () => void): AnswerState {
  // The form is not disabled meanwhile: a disabled field loses the focus.
  const isBusy = useRef(false);
  const [refusal, setRefusal] = useState(question.fault);
  const send = async (answer: string): Promise<void> => {
    if (isBusy.current) return;
    isBusy.current = true;
    setRefusal("");
    try {
      const run = await post<RunDetail>(`/v1/questions/${encodeURIComponent(question.id)}/answer`, { answer });
      const reasked = run.questions.find((each) => each.key === question.key);
      if (reasked) setRefusal(reasked.fault || "The answer was not accepted.");
      else done();
    } catch (refused) {
      setRefusal(refusalMessage(refused));
    }
    await refreshInbox();
    isBusy.current = false;
  };
  return { refusal, send };
}

function refusalMessage(error: unknown): string {
  const isSecond = error instanceof ApiError && (error.code === "already-resumed" || error.code === "not-waiting");
  return isSecond ? `This was already answered: ${errorMessage(error)}` : errorMessage(error);
}
