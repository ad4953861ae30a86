/** The events of one run: its history from the store, then new ones. Each once, and in order. */
import { useEffect, useState } from "react";
import { errorMessage } from "../api/client";
import type { RunEvent, StreamEvent } from "../api/events";
import { readToEnd } from "../api/stream";
import { connection, subscribe } from "./eventStream";
import { FrameBatch } from "./frameBatch";
import { RunHistory } from "./runHistory";
import { RunProjection } from "./runProjection";

export interface RunEvents {
  readonly events: readonly RunEvent[];
  readonly projection: RunProjection;
  /** Grows with every change: events and projection stay the same objects. */
  readonly version: number;
  readonly isLoaded: boolean;
  readonly error: string;
}

export function useRunEvents(run: string): RunEvents {
  const [view, setView] = useState<RunEvents>(EMPTY);

  useEffect(() => {
    const history = new RunHistory(run);
    const early: StreamEvent[][] = [];
    const stopping = new AbortController();
    let isLoaded = false;
    let hasFailed = false;
    let version = 0;
    const show = (error = ""): void =>
      setView({ events: history.events, projection: history.projection, version: ++version, isLoaded, error });
    show();
    const unsubscribe = subscribe((batch) => {
      if (!isLoaded) early.push([...batch]);
      else if (history.addEvents(batch)) show();
    });
    const frames = new FrameBatch<StreamEvent>((batch) => {
      if (!stopping.signal.aborted && history.addEvents(batch)) show();
    });
    const path = `/v1/runs/${encodeURIComponent(run)}/events?follow=false&deltas=false`;
    const load = async (): Promise<void> => {
      try {
        await readToEnd(
          path,
          (messages) => frames.add(messages.filter((m) => m.event === "message").map((m) => JSON.parse(m.data) as StreamEvent)),
          stopping.signal,
        );
        if (stopping.signal.aborted) return;
        frames.flushNow();
        isLoaded = true;
        for (const batch of early) history.addEvents(batch);
        show();
      } catch (error) {
        hasFailed = true;
        if (!stopping.signal.aborted) show(errorMessage(error));
      }
    };
    void load();
    const unwatch = connection.subscribe(() => {
      if (!hasFailed || connection.get() !== "live") return;
      hasFailed = false;
      void load();
    });
    return () => {
      stopping.abort();
      unwatch();
      unsubscribe();
    };
  }, [run]);

  return view;
}

const EMPTY: RunEvents = { events: [], projection: new RunProjection(), version: 0, isLoaded: false, error: "" };
