import { useState } from "react";
import { ShowAll } from "./ShowAll";

const SHOWN_MAX = 20_000;

/** What an agent, a tool or a person said. It is text and nothing else, and cannot reorder what stands around it. */
export function Said({ text, empty = "(nothing)" }: { text: string; empty?: string }) {
  const [isWhole, setWhole] = useState(false);
  if (!text) return <span className="quiet">{empty}</span>;
  const isCut = text.length > SHOWN_MAX && !isWhole;
  return (
    <>
      <bdi dir="auto" className="said">
        {isCut ? text.slice(0, SHOWN_MAX) : text}
      </bdi>
      {isCut && <ShowAll text={text} show={() => setWhole(true)} />}
    </>
  );
}

/** The same on one line, for lists. */
export function Brief({ text }: { text: string }) {
  return (
    <bdi dir="auto" className="brief">
      {text.slice(0, 300)}
    </bdi>
  );
}
