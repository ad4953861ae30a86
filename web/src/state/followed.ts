/** A run that somebody looks at: its history from the store, then what comes. Nothing twice, and in order. */
import { useEffect, useState } from "react";
import { wordsOf } from "../api/client";
import { isDelta, type RunEvent, type Told } from "../api/events";
import { readWhole } from "../api/stream";
import { listen } from "./live";
import { PerFrame } from "./frames";
import { Story } from "./story";

export interface Followed {
  readonly events: readonly RunEvent[];
  readonly story: Story;
  /** Grows with every change: events and story are the same objects all the time. */
  readonly version: number;
  readonly isLoaded: boolean;
  readonly error: string;
}

/** Takes each event once: the stream and the history overlap. */
export class Following {
  readonly events: RunEvent[] = [];
  readonly story = new Story();
  private readonly seen = new Map<string, number>();
  /** How deep the run itself is: paths are shown from here. */
  private depth = 0;

  constructor(private readonly run: string) {}

  /** Whether anything was new. */
  take(told: readonly Told[]): boolean {
    let isChanged = false;
    for (const each of told) {
      if (each.run !== this.run && !isBelow(each.run, this.run)) continue;
      if (!isDelta(each)) {
        if (each.seq <= (this.seen.get(each.run) ?? 0)) continue;
        this.seen.set(each.run, each.seq);
        if (each.run === this.run) this.depth = each.path?.length ?? 0;
      }
      const relative = this.depth && each.path ? { ...each, path: each.path.slice(this.depth) } : each;
      if (!isDelta(relative)) this.events.push(relative);
      this.story.take(relative);
      isChanged = true;
    }
    return isChanged;
  }
}

const CHILD_MARK = "~";

/** The id of a run below another begins with that one's. */
export function isBelow(run: string, above: string): boolean {
  return run.startsWith(above + CHILD_MARK);
}

export function useFollowed(run: string): Followed {
  const [view, setView] = useState<Followed>(EMPTY);

  useEffect(() => {
    const following = new Following(run);
    const early: Told[][] = [];
    const stopping = new AbortController();
    let isLoaded = false;
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
        if (!stopping.signal.aborted) show(wordsOf(error));
      }
    };
    void load();
    return () => {
      stopping.abort();
      deaf();
    };
  }, [run]);

  return view;
}

const EMPTY: Followed = { events: [], story: new Story(), version: 0, isLoaded: false, error: "" };
