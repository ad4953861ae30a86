/** Everything that happens on the server, over the one stream of this page. */
import type { Told } from "../api/events";
import { Stream, type Link } from "../api/stream";
import { PerFrame } from "./frames";
import { Store } from "./store";

type Listener = (told: readonly Told[]) => void;

const listeners = new Set<Listener>();
const frames = new PerFrame<Told>((told) => {
  for (const listener of [...listeners]) listener(told);
});
let stream: Stream | null = null;

export const link = new Store<Link>("connecting");

export function connect(): void {
  stream?.stop();
  stream = new Stream({
    path: "/v1/engine/events?deltas=true",
    onMessages: (messages) =>
      frames.add(messages.filter((each) => each.event === "message").map((each) => JSON.parse(each.data) as Told)),
    onLink: (now) => link.set(now),
  });
  stream.start();
  if (document.hidden) stream.rest();
}

export function disconnect(): void {
  stream?.stop();
  stream = null;
  link.set("out");
}

export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

window.addEventListener("online", () => stream?.hurry());
document.addEventListener("visibilitychange", () => (document.hidden ? stream?.rest() : stream?.hurry()));
