/** Collects items and delivers them once per frame; a hidden page has no frames and uses a timer. */

const HIDDEN_MS = 250;

export class FrameBatch<Item> {
  private waiting: Item[] = [];
  private isPlanned = false;

  constructor(private readonly deliver: (items: readonly Item[]) => void) {}

  add(items: readonly Item[]): void {
    for (const item of items) this.waiting.push(item);
    if (this.isPlanned || !this.waiting.length) return;
    this.isPlanned = true;
    if (document.hidden) setTimeout(this.flush, HIDDEN_MS);
    else requestAnimationFrame(this.flush);
  }

  /** Delivers the collected items without waiting for the frame. */
  flushNow(): void {
    if (this.waiting.length) this.flush();
  }

  private readonly flush = (): void => {
    const items = this.waiting;
    this.waiting = [];
    this.isPlanned = false;
    this.deliver(items);
  };
}
