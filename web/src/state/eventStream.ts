/** The one event stream of this page, for all events of the server. */
import type { StreamEvent } from "../api/events";
import { EventStream, type ConnectionStatus } from "../api/stream";
import { FrameBatch } from "./frameBatch";
import { Store } from "./store";

type Listener = (events: readonly StreamEvent[]) => void;

const listeners = new Set<Listener>();
const frames = new FrameBatch<StreamEvent>((events) => {
  for (const listener of [...listeners]) listener(events);
});
let stream: EventStream | null = null;

export const connection = new Store<ConnectionStatus>("connecting");

export function connect(): void {
  stream?.stop();
  stream = new EventStream({
    path: "/v1/engine/events?deltas=true",
    onMessages: (messages) =>
      frames.add(messages.filter((each) => each.event === "message").map((each) => JSON.parse(each.data) as StreamEvent)),
    onStatus: (now) => connection.set(now),
  });
  stream.start();
  if (document.hidden) stream.suspend();
}

export function disconnect(): void {
  stream?.stop();
  stream = null;
  connection.set("signed-out");
}

export function subscribe(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

window.addEventListener("online", () => stream?.reconnectNow());
document.addEventListener("visibilitychange", () => (document.hidden ? stream?.suspend() : stream?.reconnectNow()));
