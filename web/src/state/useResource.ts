/** A server resource: loaded, and loaded again when an event may have changed it. */
import { useEffect, useRef, useState } from "react";
import { get, errorMessage } from "../api/client";
import { isDelta, type StreamEvent } from "../api/events";
import { connection, subscribe } from "./eventStream";
import { useStore } from "./store";

export interface Resource<Shape> {
  readonly value: Shape | null;
  readonly error: string;
  readonly refresh: () => void;
}

const MIN_INTERVAL_MS = 300;

export type EventFilter = (event: StreamEvent) => boolean;

export const anyEvent: EventFilter = (event) => !isDelta(event);
export const noEvent: EventFilter = () => false;

/** At most one request at a time, and not more often than people can read. */
export function useResource<Shape>(path: string | null, concerns: EventFilter = noEvent, everyMs = 0): Resource<Shape> {
  const [state, setState] = useState<{ path: string | null; value: Shape | null; error: string }>({
    path,
    value: null,
    error: "",
  });
  const refresh = useRef<() => void>(() => undefined);
  const isLive = useStore(connection) === "live";

  useEffect(() => {
    if (path === null) return;
    const stopping = new AbortController();
    let isLoading = false;
    let isStale = false;
    const load = async (): Promise<void> => {
      if (isLoading) {
        isStale = true;
        return;
      }
      isLoading = true;
      try {
        const value = await get<Shape>(path, stopping.signal);
        if (!stopping.signal.aborted) setState({ path, value, error: "" });
      } catch (error) {
        if (!stopping.signal.aborted) setState((old) => ({ ...old, path, error: errorMessage(error) }));
      }
      setTimeout(() => {
        isLoading = false;
        if (isStale && !stopping.signal.aborted) {
          isStale = false;
          void load();
        }
      }, MIN_INTERVAL_MS);
    };
    refresh.current = () => void load();
    const unsubscribe = subscribe((events) => {
      if (events.some(concerns)) void load();
    });
    const beat = everyMs ? setInterval(() => !document.hidden && void load(), everyMs) : undefined;
    void load();
    return () => {
      clearInterval(beat);
      stopping.abort();
      unsubscribe();
    };
  }, [path, concerns, everyMs, isLive]);

  const isCurrent = state.path === path;
  return {
    value: isCurrent ? state.value : null,
    error: isCurrent ? state.error : "",
    refresh: () => refresh.current(),
  };
}
