import { useState } from "react";
import { ShowAll } from "./ShowAll";

const SHOWN_MAX = 20_000;

/** Text of an agent, a tool or a person. It is text only, and cannot reorder the text around it. */
export function PlainText({ text, empty = "(nothing)" }: { text: string; empty?: string }) {
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
export function OneLine({ text }: { text: string }) {
  return (
    <bdi dir="auto" className="brief">
      {text.slice(0, 300)}
    </bdi>
  );
}
