/** A list that the server keeps: asked for, and asked for again when something happened that may change it. */
import { useEffect, useRef, useState } from "react";
import { get, wordsOf } from "../api/client";
import { isDelta, type Told } from "../api/events";
import { link, listen } from "./live";
import { useStore } from "./store";

export interface Fetched<Shape> {
  readonly value: Shape | null;
  readonly error: string;
  readonly again: () => void;
}

const BETWEEN_MS = 300;

export type Concerns = (told: Told) => boolean;

export const anything: Concerns = (told) => !isDelta(told);
export const nothing: Concerns = () => false;

/** At most one question at a time, and not more often than people can read. */
export function useFetched<Shape>(path: string | null, concerns: Concerns = nothing, everyMs = 0): Fetched<Shape> {
  const [state, setState] = useState<{ path: string | null; value: Shape | null; error: string }>({
    path,
    value: null,
    error: "",
  });
  const again = useRef<() => void>(() => undefined);
  const isLive = useStore(link) === "live";

  useEffect(() => {
    if (path === null) return;
    const stopping = new AbortController();
    let isAsking = false;
    let isStale = false;
    const ask = async (): Promise<void> => {
      if (isAsking) {
        isStale = true;
        return;
      }
      isAsking = true;
      try {
        const value = await get<Shape>(path, stopping.signal);
        if (!stopping.signal.aborted) setState({ path, value, error: "" });
      } catch (error) {
        if (!stopping.signal.aborted) setState((old) => ({ ...old, path, error: wordsOf(error) }));
      }
      setTimeout(() => {
        isAsking = false;
        if (isStale && !stopping.signal.aborted) {
          isStale = false;
          void ask();
        }
      }, BETWEEN_MS);
    };
    again.current = () => void ask();
    const deaf = listen((told) => {
      if (told.some(concerns)) void ask();
    });
    const beat = everyMs ? setInterval(() => !document.hidden && void ask(), everyMs) : undefined;
    void ask();
    return () => {
      clearInterval(beat);
      stopping.abort();
      deaf();
    };
  }, [path, concerns, everyMs, isLive]);

  const isCurrent = state.path === path;
  return {
    value: isCurrent ? state.value : null,
    error: isCurrent ? state.error : "",
    again: () => again.current(),
  };
}
