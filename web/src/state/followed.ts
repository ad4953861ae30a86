/** A run that somebody looks at: its history from the store, then what comes. Nothing twice, and in order. */
import { useEffect, useState } from "react";
import { wordsOf } from "../api/client";
import type { RunEvent, Told } from "../api/events";
import { readWhole } from "../api/stream";
import { link, listen } from "./live";
import { PerFrame } from "./frames";
import { Following } from "./following";
import { Story } from "./story";

export interface Followed {
  readonly events: readonly RunEvent[];
  readonly story: Story;
  /** Grows with every change: events and story are the same objects all the time. */
  readonly version: number;
  readonly isLoaded: boolean;
  readonly error: string;
}

export function useFollowed(run: string): Followed {
  const [view, setView] = useState<Followed>(EMPTY);

  useEffect(() => {
    const following = new Following(run);
    const early: Told[][] = [];
    const stopping = new AbortController();
    let isLoaded = false;
    let hasFailed = false;
    let version = 0;
    const show = (error = ""): void =>
      setView({ events: following.events, story: following.story, version: ++version, isLoaded, error });
    show();
    const deaf = listen((told) => {
      if (!isLoaded) early.push([...told]);
      else if (following.take(told)) show();
    });
    const frames = new PerFrame<Told>((told) => {
      if (!stopping.signal.aborted && following.take(told)) show();
    });
    const path = `/v1/runs/${encodeURIComponent(run)}/events?follow=false&deltas=false`;
    const load = async (): Promise<void> => {
      try {
        await readWhole(
          path,
          (messages) => frames.add(messages.filter((m) => m.event === "message").map((m) => JSON.parse(m.data) as Told)),
          stopping.signal,
        );
        if (stopping.signal.aborted) return;
        frames.flushNow();
        isLoaded = true;
        for (const told of early) following.take(told);
        show();
      } catch (error) {
        hasFailed = true;
        if (!stopping.signal.aborted) show(wordsOf(error));
      }
    };
    void load();
    const unwatch = link.watch(() => {
      if (!hasFailed || link.get() !== "live") return;
      hasFailed = false;
      void load();
    });
    return () => {
      stopping.abort();
      unwatch();
      deaf();
    };
  }, [run]);

  return view;
}

const EMPTY: Followed = { events: [], story: new Story(), version: 0, isLoaded: false, error: "" };
