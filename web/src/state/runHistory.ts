/** The events received of a run and its child runs. Pure. */
import { isDelta, type RunEvent, type StreamEvent } from "../api/events";
import { RunProjection } from "./runProjection";

/** Applies each event once: the stream and the stored history overlap. Deltas of a reply that the history holds are dropped. */
export class RunHistory {
  readonly events: RunEvent[] = [];
  readonly projection = new RunProjection();
  private readonly seen = new Map<string, number>();
  private readonly paths = new Map<string, readonly string[]>();

  constructor(private readonly run: string) {}

  /** Returns whether anything changed. */
  addEvents(batch: readonly StreamEvent[]): boolean {
    let isChanged = false;
    for (const each of batch) {
      if (each.run !== this.run && !isBelow(each.run, this.run)) continue;
      if (!isDelta(each)) {
        if (each.seq <= (this.seen.get(each.run) ?? 0)) {
          isChanged = this.projection.dropPartialReply(this.withRelativePath(each)) || isChanged;
          continue;
        }
        this.seen.set(each.run, each.seq);
        if (each.path) this.paths.set(each.run, each.path);
      }
      const relative = this.withRelativePath(each);
      if (!isDelta(relative)) this.events.push(relative);
      this.projection.apply(relative);
      isChanged = true;
    }
    return isChanged;
  }

  /** Paths are relative to this run; deltas come without one. */
  private withRelativePath<Each extends StreamEvent>(event: Each): Each {
    const path = this.paths.get(event.run);
    return path ? { ...event, path: path.slice(this.paths.get(this.run)?.length ?? 0) } : event;
  }
}

const CHILD_MARK = "~";

/** The id of a child run starts with its parent's id. */
export function isBelow(run: string, above: string): boolean {
  return run.startsWith(above + CHILD_MARK);
}
