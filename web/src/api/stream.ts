/** An event stream that reconnects by itself, after the last event that it received.
 *
 * It uses fetch: EventSource gives up for good when a stopping server answers 503, and hides a 401.
 */
import { urlOf, apiErrorOf, ApiError } from "./client";
import { SseParser, type SseMessage } from "./sse";

/** `signed-out`: the server asks for a session. */
export type ConnectionStatus = "connecting" | "live" | "reconnecting" | "signed-out";

export interface StreamOptions {
  readonly path: string;
  readonly onMessages: (messages: readonly SseMessage[]) => void;
  readonly onStatus: (link: ConnectionStatus) => void;
}

const IDLE_TIMEOUT_MS = 60_000;
const RETRY_DELAYS_MS = [250, 500, 1_000, 2_000, 5_000];

export class EventStream {
  private readonly parser = new SseParser();
  private stopping = new AbortController();
  private failures = 0;
  private isSuspended = false;
  private wake: () => void = () => undefined;
  private abortRead: () => void = () => undefined;

  constructor(private readonly options: StreamOptions) {}

  start(): void {
    void this.readUntilStopped();
  }

  stop(): void {
    this.stopping.abort();
    this.wake();
  }

  /** Reconnects now, also when suspended. */
  reconnectNow(): void {
    this.isSuspended = false;
    this.wake();
  }

  /** Closes the connection until `reconnectNow`: a browser has six for all tabs together. */
  suspend(): void {
    this.isSuspended = true;
    this.abortRead();
  }

  private async readUntilStopped(): Promise<void> {
    this.options.onStatus("connecting");
    while (!this.stopping.signal.aborted) {
      try {
        await this.read();
      } catch (error) {
        if (this.stopping.signal.aborted) return;
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
          this.options.onStatus("signed-out");
          return;
        }
        if (error instanceof ApiError && error.code === "event-ahead") {
          window.location.reload(); // another data folder, such as a restored backup: nothing on this page belongs to it
          return;
        }
      }
      this.options.onStatus("reconnecting");
      if (this.isSuspended) await this.pause();
      else await this.pause(RETRY_DELAYS_MS[Math.min(this.failures++, RETRY_DELAYS_MS.length - 1)] ?? 5_000);
    }
  }

  private async read(): Promise<void> {
    const reading = new AbortController();
    const giveUp = () => reading.abort();
    this.abortRead = giveUp;
    this.stopping.signal.addEventListener("abort", giveUp);
    this.parser.startOver();
    let watchdog = setTimeout(giveUp, IDLE_TIMEOUT_MS);
    try {
      const answer = await fetch(urlOf(this.options.path), {
        headers: { accept: "text/event-stream", ...(this.parser.lastId && { "last-event-id": this.parser.lastId }) },
        signal: reading.signal,
        credentials: "same-origin",
        cache: "no-store",
      });
      if (!answer.ok || !answer.body) throw await apiErrorOf(answer);
      const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await pieces.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(giveUp, IDLE_TIMEOUT_MS);
        const messages = this.parser.feed(value);
        this.failures = 0;
        this.options.onStatus("live");
        if (messages.length) this.options.onMessages(messages);
      }
    } finally {
      clearTimeout(watchdog);
      reading.abort();
      this.stopping.signal.removeEventListener("abort", giveUp);
    }
  }

  /** Waits this long, or until `wake`. */
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

/** Reads a stream that ends by itself. */
export async function readToEnd(
  path: string,
  onMessages: (messages: readonly SseMessage[]) => void,
  signal: AbortSignal,
): Promise<void> {
  const headers = { accept: "text/event-stream" };
  const answer = await fetch(urlOf(path), { headers, signal, credentials: "same-origin", cache: "no-store" });
  if (!answer.ok) throw await apiErrorOf(answer);
  if (!answer.body) return;
  const parser = new SseParser();
  const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await pieces.read();
    if (done) return;
    const messages = parser.feed(value);
    if (messages.length) onMessages(messages);
  }
}
