import { afterEach, describe, expect, test, vi } from "vitest";
import { SseParser } from "../api/sse";
import { EventStream } from "../api/stream";
import { RunHistory, isBelow } from "./runHistory";
import { END, nodeKey, projectRun } from "./runProjection";
import type { RunEvent, StreamEvent } from "../api/events";

function events(...bodies: Record<string, unknown>[]): RunEvent[] {
  return bodies.map((body, n) => ({ run: "r", seq: n + 1, at: 1_000 + n, type: "", ...body }) as RunEvent);
}

const RUN = events(
  { type: "run.started", crew: "c", input: "hello" },
  { type: "turn.started", agent: "a" },
  { type: "model.called", agent: "a", call: "1" },
  { type: "model.replied", agent: "a", call: "1", text: "Over. [B]", usage: { input_tokens: 3, output_tokens: 2, cost_micros: 7 } },
  { type: "decision", agent: "a", verb: "hand_over", signal: "[B]", target: "b" },
  { type: "handoff", from: "a", to: "b", signal: "[B]" },
  { type: "turn.started", agent: "b" },
  { type: "run.finished", status: "completed", reason: "signal:[DONE]", agent: "b" },
);

describe("a run projection", () => {
  test("knows who has the floor at every moment", () => {
    expect([...projectRun(RUN, 3).active]).toEqual([nodeKey([], "a")]);
    expect([...projectRun(RUN, 7).active]).toEqual([nodeKey([], "b")]);
    expect([...projectRun(RUN).active]).toEqual([]);
    expect(projectRun(RUN).status).toBe("completed");
  });

  test("keeps what a model thinks apart from what it says", () => {
    const projection = projectRun(RUN, 3);
    const place = nodeKey([], "a");
    projection.apply({ run: "r", type: "model.delta", agent: "a", text: "hm" });
    projection.apply({ run: "r", type: "reasoning.delta", agent: "a", text: "", takes_back: true });
    expect(projection.partialReplies.get(place)).toEqual({ text: "", reasoning: "hm" });
    projection.apply({ run: "r", type: "reasoning.delta", agent: "a", text: ", so" });
    projection.apply({ run: "r", type: "model.delta", agent: "a", text: "Over" });
    expect(projection.partialReplies.get(place)).toEqual({ text: "Over", reasoning: "hm, so" });
    for (const event of events({ type: "model.replied", agent: "a", call: "1", text: "Over", reasoning: "hm, so" })) projection.apply(event);
    expect(projection.partialReplies.size).toBe(0);
    expect(projection.transcript.at(-1)).toMatchObject({ kind: "reply", text: "Over", reasoning: "hm, so" });
  });

  test("drops the partial reply of a cancelled call, and of a call that a parked run repeats", () => {
    for (const last of [
      { type: "model.cancelled", agent: "a", call: "1" },
      { type: "run.paused", agent: "a", token: "t", reason: "parked" },
      { type: "run.paused", agent: "a", token: "t", reason: "set_aside" },
    ]) {
      const projection = projectRun(RUN, 3);
      projection.apply({ run: "r", type: "model.delta", agent: "a", text: "Ov" });
      projection.apply({ run: "r", type: "tool.progress", agent: "a", call: "1", text: "half way" });
      expect(projection.partialReplies.size).toBe(1);
      for (const event of events(last)) projection.apply(event);
      expect(projection.partialReplies.size).toBe(0);
    }
  });

  test("has the reason of its own pause until it is resumed", () => {
    const [pause, below, resume] = events(
      { type: "run.paused", agent: "a", token: "t", reason: "parked" },
      { type: "run.paused", agent: "x", token: "u", reason: "question", run: "r~1", path: ["sub"] },
      { type: "run.resumed", token: "t", input: "" },
    ) as [RunEvent, RunEvent, RunEvent];
    expect([projectRun([pause, below]).status, projectRun([pause, below]).reason]).toEqual(["paused", "parked"]);
    expect([projectRun([pause, below, resume]).status, projectRun([pause, below, resume]).reason]).toEqual(["running", ""]);
  });

  test("counts what was used", () => {
    expect([projectRun(RUN).tokens, projectRun(RUN).costMicros]).toEqual([5, 7]);
  });

  test("goes to the end", () => {
    const ended = projectRun(events({ type: "decision", agent: "a", verb: "end", signal: "[DONE]", target: "" }));
    expect(ended.steps).toEqual([{ level: "", from: "a", to: END, signal: "[DONE]" }]);
  });

  test("comes back from a crew that was called, and not from one that was given a task", () => {
    const back = (task: object) =>
      projectRun(
        events(
          { type: "child.started", child: "r~1", crew: "sub", ...task },
          { type: "child.finished", child: "r~1", crew: "sub", status: "completed" },
        ),
      ).pendingReturns.get("");
    expect(back({})).toBe("sub");
    expect(back({ message_id: "m1" })).toBeUndefined();
  });

  test("keeps what crews below say with their path", () => {
    const below = projectRun([{ run: "r~1", seq: 1, at: 1, type: "model.replied", agent: "x", call: "1", text: "hi", path: ["sub"] }]);
    expect(below.transcript[0]).toMatchObject({ author: "x", path: ["sub"], text: "hi" });
  });
});

const TASK = { from: "a", to: "b", message_id: "r:m1", task: "Look.", type: "DELEGATE" };
const EXCHANGE = events(
  { type: "turn.started", agent: "a" },
  { type: "model.replied", agent: "a", call: "1", text: '["b"]', purpose: "select" },
  { type: "children.selected", agent: "a", children: ["b"], because: "model" },
  { type: "tool.called", agent: "a", call: "2", name: "delegate", arguments: {} },
  { type: "message.sent", message: TASK, attempt: 0 },
  { type: "tool.returned", call: "2", ok: true, output: "on its way" },
  { type: "agent.state", agent: "a", state: "waiting_for_child" },
  { type: "message.sent", message: TASK, attempt: 1 },
  { type: "turn.started", agent: "b" },
  { type: "input.requested", agent: "b", question: "Which?", token: "r:m2" },
  { type: "input.requested", agent: "b", question: "Where?", token: "r:m3" },
  { type: "input.given", token: "r:m2" },
  { type: "input.expired", token: "r:m3" },
  { type: "message.sent", message: { from: "b", to: "a", result: "Seen.", status: "needs_help", type: "REPORT" }, attempt: 0 },
  { type: "agent.state", agent: "b", state: "completed" },
  { type: "report.checked", message_id: "r:m4", ok: false, by: "model", reason: "too short" },
  { type: "tool.called", agent: "a", call: "3", name: "delegate", arguments: {} },
  { type: "tool.returned", call: "3", ok: false, output: "no such child" },
);

describe("who asked and answered", () => {
  const people = events(
    { type: "run.started", crew: "a", input: "Begin", by: "owner" },
    { type: "run.resumed", token: "r:1", input: "yes", by: "session:key:maria" },
    { type: "run.resumed", token: "r:2", input: "no" },
    { type: "cancel.requested", by: "key:ops" },
  );

  test("stands beside what they said", () => {
    const notes = projectRun(people).transcript.map(({ kind, note }) => `${kind} ${note}`.trim());
    expect(notes).toEqual(["input by owner", "answer by session:key:maria", "answer", "note cancelled by key:ops"]);
  });
});

describe("an exchange of messages", () => {
  const lines = (count: number) => projectRun(EXCHANGE, count).transcript.map(({ author, note, text }) => `${author} ${note} ${text}`.trim());

  test("is shown once, by its messages and not by its tools", () => {
    expect(lines(9)).toEqual(["a needs b", "a gives a task to b Look."]);
    expect(lines(16).slice(4)).toEqual(["b reports to a: needs help Seen.", "report m4 is not accepted too short"]);
  });

  test("tells of a tool that was refused", () => {
    expect(lines(18).at(-1)).toBe("delegate failed no such child");
  });

  test("takes the way of a task, and keeps who gave it at work", () => {
    const projection = projectRun(EXCHANGE, 9);
    expect(projection.steps).toEqual([{ level: "", from: "a", to: "b", signal: "" }]);
    expect([...projection.active]).toEqual([nodeKey([], "a"), nodeKey([], "b")]);
    expect(projection.states.get(nodeKey([], "a"))).toBe("waiting_for_child");
    expect([...projectRun(EXCHANGE).active]).toEqual([nodeKey([], "a")]);
  });

  test("has an agent wait until its last question is answered or too old", () => {
    const waits = (count: number) => projectRun(EXCHANGE, count).waiting.has(nodeKey([], "b"));
    expect([waits(9), waits(11), waits(12), waits(13)]).toEqual([false, true, true, false]);
  });
});

describe("following", () => {
  test("takes every event once and leaves other runs out", () => {
    const following = new RunHistory("r");
    following.addEvents(RUN.slice(0, 4));
    expect(following.addEvents([...RUN, { ...RUN[0]!, run: "other", seq: 99 }])).toBe(true);
    expect(following.events.map((event) => event.seq)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(following.addEvents(RUN)).toBe(false);
  });

  test("does not show as being typed what the history has already", () => {
    const following = new RunHistory("r");
    const piece = { type: "model.delta", run: "r", agent: "a", text: "Ov" } as unknown as StreamEvent;
    following.addEvents(RUN.slice(0, 4));
    following.addEvents([RUN[2]!, piece]);
    expect(following.projection.partialReplies.size).toBe(1);
    expect(following.addEvents([RUN[3]!])).toBe(true);
    expect(following.projection.partialReplies.size).toBe(0);
    following.addEvents([...RUN, piece, RUN[7]!]);
    expect(following.projection.partialReplies.size).toBe(0);
  });

  test("knows runs below by their ids", () => {
    expect([isBelow("r~1", "r"), isBelow("r1", "r"), isBelow("r", "r")]).toEqual([true, false, false]);
  });
});

describe("a stream", () => {
  test("is the same however it is cut", () => {
    const text = 'id: 0\nretry: 1\n\n: alive\r\n\r\nid: 17.1\ndata: {"a":1}\n\nid: 17\nevent: stream.closed\ndata: x\n\n';
    const whole = new SseParser().feed(text);
    expect(whole).toEqual([
      { id: "17.1", event: "message", data: '{"a":1}' },
      { id: "17", event: "stream.closed", data: "x" },
    ]);
    for (let size = 1; size < text.length; size += 1) {
      const parser = new SseParser();
      const found = [];
      for (let at = 0; at < text.length; at += size) found.push(...parser.feed(text.slice(at, at + size)));
      expect(found).toEqual(whole);
      expect(parser.lastId).toBe("17");
    }
  });
});

describe("a stream of another data folder", () => {
  afterEach(() => vi.unstubAllGlobals());

  test("reloads the page, and asks no more", async () => {
    const reload = vi.fn();
    const body = JSON.stringify({ status: 409, code: "event-ahead", title: "", detail: "" });
    const ask = vi.fn(() => Promise.resolve(new Response(body, { status: 409 })));
    vi.stubGlobal("window", { location: { reload } });
    vi.stubGlobal("fetch", ask);
    new EventStream({ path: "/x", onMessages: () => undefined, onStatus: () => undefined }).start();
    await vi.waitFor(() => expect(reload).toHaveBeenCalledOnce());
    expect(ask).toHaveBeenCalledOnce();
  });
});

describe("a transcript", () => {
  const CALLED = { type: "model.called", agent: "a", call: "1" };

  test("tells what each reply took", () => {
    const usage = { input_tokens: 3, cache_read_tokens: 1, output_tokens: 2, cost_micros: 7, unpriced_calls: 1 };
    const projection = projectRun(events(CALLED, { type: "model.replied", agent: "a", call: "1", text: "Hi", model: "x:y", usage }));
    expect(projection.transcript[0]?.call).toEqual({ model: "x:y", tokens: 5, cachedTokens: 1, costMicros: 7, isUnpriced: true, ms: 1 });
  });

  test("has a tool and what it returned in one entry", () => {
    const projection = projectRun(
      events(
        { type: "tool.called", agent: "a", call: "2", name: "pay", arguments: { n: 1 } },
        { type: "tool.called", agent: "a", call: "3", name: "ring", arguments: {} },
        { type: "tool.returned", call: "2", ok: false, output: "no money" },
      ),
    );
    expect(projection.transcript.map((entry) => [entry.note, entry.text, entry.result?.text])).toEqual([
      ["pay", '{"n":1}', "no money"],
      ["ring", "{}", undefined],
    ]);
    expect(projection.transcript[0]?.result?.isFailed).toBe(true);
  });

  test("knows the marks of a reply as they are spelled, counted in characters", () => {
    const candidates = [{ signal: "[DONE]", start: 3, end: 11, outcome: "won" }];
    const projection = projectRun(
      events(
        CALLED,
        { type: "model.replied", agent: "a", call: "1", text: "👍👍 [ done ]" },
        { type: "signal.seen", agent: "a", signal: "[DONE]" },
        { type: "decision", agent: "a", verb: "end", signal: "[DONE]", target: "", candidates },
      ),
    );
    expect(projection.transcript[0]?.marks).toEqual(["[DONE]", "[ done ]"]);
  });
});
