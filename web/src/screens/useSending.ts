import { useState } from "react";
import { wordsOf } from "../api/client";

/** Does something on the server, and keeps why it was refused. */
export function useSending(after?: () => void): { error: string; send: (doing: () => Promise<unknown>) => Promise<boolean> } {
  const [error, setError] = useState("");
  const send = async (doing: () => Promise<unknown>): Promise<boolean> => {
    try {
      await doing();
      setError("");
      after?.();
      return true;
    } catch (refused) {
      setError(wordsOf(refused));
      return false;
    }
  };
  return { error, send };
}
