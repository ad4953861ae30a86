import { useState } from "react";
import { errorMessage } from "../api/client";

/** Sends an action to the server, and keeps the reason of a refusal. */
export function useAction(after?: () => void): { error: string; send: (action: () => Promise<unknown>) => Promise<boolean> } {
  const [error, setError] = useState("");
  const send = async (action: () => Promise<unknown>): Promise<boolean> => {
    try {
      await action();
      setError("");
      after?.();
      return true;
    } catch (refused) {
      setError(errorMessage(refused));
      return false;
    }
  };
  return { error, send };
}
