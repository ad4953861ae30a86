import { describe, expect, it } from "vitest";
import { SseParser } from "./sse";

const messageOf = (id: number): string => `id: ${id}\nevent: message\ndata: {"n":${id}}\n\n`;

describe("an event stream", () => {
  it("gives the same messages wherever it is cut into pieces", () => {
    const whole = messageOf(1) + ": keep-alive\r\n\r\n" + messageOf(2);
    for (let at = 0; at <= whole.length; at++) {
      const parser = new SseParser();
      const found = [...parser.feed(whole.slice(0, at)), ...parser.feed(whole.slice(at))];
      expect(found.map((each) => each.data)).toEqual(['{"n":1}', '{"n":2}']);
      expect(parser.lastId).toBe("2");
    }
  });

  it("loses no message when a connection is cut anywhere and another one goes on after the last id", () => {
    const whole = messageOf(1) + messageOf(2);
    for (let at = 0; at <= whole.length; at++) {
      const parser = new SseParser();
      const before = parser.feed(whole.slice(0, at));
      parser.startOver();
      const after = parser.feed(whole.slice(Number(parser.lastId || "0") * messageOf(1).length));
      expect([...before, ...after].map((each) => each.data)).toEqual(['{"n":1}', '{"n":2}']);
    }
  });
});
