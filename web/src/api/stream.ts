/** One stream of events that comes back by itself, after the last event it has seen.
 *
 * It is read with fetch: EventSource gives up for good when a server that stops answers 503, and hides a 401.
 */
import { addressOf, refusal, Refused } from "./client";
import { MessageParser, type Message } from "./sse";

/** `out` means that the server wants to know who asks. */
export type Link = "connecting" | "live" | "lost" | "out";

export interface StreamOptions {
  readonly path: string;
  readonly onMessages: (messages: readonly Message[]) => void;
  readonly onLink: (link: Link) => void;
}

const SILENCE_MS = 60_000;
const WAITS_MS = [250, 500, 1_000, 2_000, 5_000];

export class Stream {
  private readonly parser = new MessageParser();
  private stopping = new AbortController();
  private failures = 0;
  private isResting = false;
  private wake: () => void = () => undefined;
  private letGo: () => void = () => undefined;

  constructor(private readonly options: StreamOptions) {}

  start(): void {
    void this.keepReading();
  }

  stop(): void {
    this.stopping.abort();
    this.wake();
  }

  /** Tries again at once, also after a rest. */
  hurry(): void {
    this.isResting = false;
    this.wake();
  }

  /** Lets go of the line until it is told to hurry: a browser has six for all tabs together. */
  rest(): void {
    this.isResting = true;
    this.letGo();
  }

  private async keepReading(): Promise<void> {
    this.options.onLink("connecting");
    while (!this.stopping.signal.aborted) {
      try {
        await this.read();
      } catch (error) {
        if (this.stopping.signal.aborted) return;
        if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
          this.options.onLink("out");
          return;
        }
        if (error instanceof Refused && error.code === "event-ahead") {
          window.location.reload(); // another data folder, such as a backup: nothing on this page is of it
          return;
        }
      }
      this.options.onLink("lost");
      if (this.isResting) await this.pause();
      else await this.pause(WAITS_MS[Math.min(this.failures++, WAITS_MS.length - 1)] ?? 5_000);
    }
  }

  private async read(): Promise<void> {
    const reading = new AbortController();
    const giveUp = () => reading.abort();
    this.letGo = giveUp;
    this.stopping.signal.addEventListener("abort", giveUp);
    let watchdog = setTimeout(giveUp, SILENCE_MS);
    try {
      const answer = await fetch(addressOf(this.options.path), {
        headers: { accept: "text/event-stream", ...(this.parser.lastId && { "last-event-id": this.parser.lastId }) },
        signal: reading.signal,
        credentials: "same-origin",
        cache: "no-store",
      });
      if (!answer.ok || !answer.body) throw await refusal(answer);
      const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await pieces.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(giveUp, SILENCE_MS);
        const messages = this.parser.take(value);
        this.failures = 0;
        this.options.onLink("live");
        if (messages.length) this.options.onMessages(messages);
      }
    } finally {
      clearTimeout(watchdog);
      reading.abort();
      this.stopping.signal.removeEventListener("abort", giveUp);
    }
  }

  /** So long, or until it is woken. */
  private pause(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** All of a stream that ends by itself. */
export async function readWhole(
  path: string,
  onMessages: (messages: readonly Message[]) => void,
  signal: AbortSignal,
): Promise<void> {
  const headers = { accept: "text/event-stream" };
  const answer = await fetch(addressOf(path), { headers, signal, credentials: "same-origin", cache: "no-store" });
  if (!answer.ok) throw await refusal(answer);
  if (!answer.body) return;
  const parser = new MessageParser();
  const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await pieces.read();
    if (done) return;
    const messages = parser.take(value);
    if (messages.length) onMessages(messages);
  }
}
