/** What was seen of a run and the runs below it. Pure: it is fed. */
import { isDelta, type RunEvent, type Told } from "../api/events";
import { Story } from "./story";

/** Takes each event once: the stream and the history overlap. */
export class Following {
  readonly events: RunEvent[] = [];
  readonly story = new Story();
  private readonly seen = new Map<string, number>();
  private readonly paths = new Map<string, readonly string[]>();

  constructor(private readonly run: string) {}

  /** Whether anything was new. */
  take(told: readonly Told[]): boolean {
    let isChanged = false;
    for (const each of told) {
      if (each.run !== this.run && !isBelow(each.run, this.run)) continue;
      if (!isDelta(each)) {
        if (each.seq <= (this.seen.get(each.run) ?? 0)) continue;
        this.seen.set(each.run, each.seq);
        if (each.path) this.paths.set(each.run, each.path);
      }
      const relative = this.relative(each);
      if (!isDelta(relative)) this.events.push(relative);
      this.story.take(relative);
      isChanged = true;
    }
    return isChanged;
  }

  /** Paths are shown from this run on; pieces of replies come without one. */
  private relative<Each extends Told>(told: Each): Each {
    const path = this.paths.get(told.run);
    return path ? { ...told, path: path.slice(this.paths.get(this.run)?.length ?? 0) } : told;
  }
}

const CHILD_MARK = "~";

/** The id of a run below another begins with that one's. */
export function isBelow(run: string, above: string): boolean {
  return run.startsWith(above + CHILD_MARK);
}
