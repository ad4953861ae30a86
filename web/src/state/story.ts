/** A run as its events tell it. Rule: `take` alone changes a story, and depends on nothing but the events. */
import { isDelta, isRecord, namesOf, numberOf, textOf, type Delta, type RunEvent, type Told } from "../api/events";
import { MAIL, TELLS } from "./mail";
import { isResting } from "./words";

export type EntryKind = "input" | "reply" | "message" | "note" | "tool" | "question" | "answer" | "failure" | "end";

export interface TranscriptEntry {
  readonly key: string;
  readonly at: number;
  readonly author: string;
  readonly kind: EntryKind;
  readonly text: string;
  readonly path: readonly string[];
  readonly note: string;
  /** Signals of a reply, as they are spelled in it. */
  readonly marks?: readonly string[];
  /** What the model call behind a reply took. */
  readonly call?: CallFacts;
  /** What a tool returned. */
  readonly result?: ToolResult;
}

export interface CallFacts {
  /** Named only where it is not the agent's own. */
  readonly model: string;
  readonly tokens: number;
  readonly costMicros: number;
  /** Whether there is no price for it: then the cost is not known, and not nothing. */
  readonly isUnpriced: boolean;
  readonly ms: number;
}

export interface ToolResult {
  readonly text: string;
  readonly isFailed: boolean;
  readonly ms: number;
}

export type SpanKind = "model" | "tool" | "child" | "wait";

export interface Span {
  readonly key: string;
  readonly lane: string;
  readonly kind: SpanKind;
  readonly label: string;
  readonly from: number;
  to: number | null;
  outcome: string;
}

/** A way that control went: `level` are the sub-crews above it. */
export interface Step {
  readonly level: string;
  readonly from: string;
  readonly to: string;
  readonly signal: string;
}

export const END = "\u0000end";
const NO_PATH: readonly string[] = [];

export function levelOf(path: readonly string[]): string {
  return path.join(" › ");
}

export class Story {
  readonly transcript: TranscriptEntry[] = [];
  readonly spans: Span[] = [];
  readonly lanes: string[] = [];
  readonly steps: Step[] = [];
  /** Who works and who waits now, and how often each had the floor, by level and name. */
  readonly active = new Set<string>();
  readonly waiting = new Set<string>();
  readonly visits = new Map<string, number>();
  /** What an agent is doing, where `agent.state` tells it. */
  readonly states = new Map<string, string>();
  /** What agents are saying at this moment, by level and name. */
  readonly saying = new Map<string, string>();
  status = "running";
  reason = "";
  detail = "";
  begin = 0;
  now = 0;
  taken = 0;
  tokens = 0;
  costMicros = 0;
  unpricedCalls = 0;
  /** Crews and groups that have come back, until it is seen to whom; by level. */
  readonly returning = new Map<string, string>();
  /** Runs of crews that were given a task: control stays where it is. */
  readonly entrusted = new Set<string>();
  /** Who asked what is open, by its token. */
  private readonly questions = new Map<string, string>();
  private readonly open = new Map<string, Span>();
  private readonly known = new Set<string>();
  /** Places in the transcript: of tool calls that are open, and of the newest reply by level and name. */
  readonly toolEntries = new Map<string, number>();
  readonly replies = new Map<string, number>();

  take(told: Told): void {
    if (isDelta(told)) this.hear(told);
    else this.happen(told);
  }

  private hear(delta: Delta): void {
    const place = placeKey(delta.path ?? NO_PATH, delta.agent);
    this.saying.set(place, (this.saying.get(place) ?? "") + delta.text);
  }

  private happen(event: RunEvent): void {
    this.taken += 1;
    this.begin ||= event.at;
    this.now = Math.max(this.now, event.at);
    HAPPENS[event.type]?.(this, event, event.path ?? NO_PATH);
  }

  say(event: RunEvent, kind: EntryKind, author: string, text: string, note = "", call?: CallFacts): number {
    const path = event.path ?? NO_PATH;
    const entry = { key: `${event.run}.${event.seq}`, at: event.at, author, kind, text, path, note };
    return this.transcript.push(call ? { ...entry, call } : entry) - 1;
  }

  /** Entries are replaced and never changed: a view may compare them by identity. */
  amend(at: number | undefined, more: Partial<TranscriptEntry>): boolean {
    const entry = at === undefined ? undefined : this.transcript[at];
    if (at === undefined || !entry) return false;
    this.transcript[at] = { ...entry, ...more };
    return true;
  }

  /** A signal of the newest reply of an agent. */
  mark(place: string, spelling: string): void {
    const at = this.replies.get(place);
    const marks = at === undefined ? [] : (this.transcript[at]?.marks ?? []);
    if (spelling && !marks.includes(spelling)) this.amend(at, { marks: [...marks, spelling] });
  }

  start(event: RunEvent, kind: SpanKind, call: string, lane: string, label: string): void {
    const key = `${event.run} ${kind} ${call}`;
    const span: Span = { key: `${key} ${event.seq}`, lane, kind, label, from: event.at, to: null, outcome: "" };
    if (!this.known.has(lane)) {
      this.known.add(lane);
      this.lanes.push(lane);
    }
    this.open.set(key, span);
    this.spans.push(span);
  }

  stop(event: RunEvent, kind: SpanKind, call: string, outcome: string): Span | undefined {
    const key = `${event.run} ${kind} ${call}`;
    const span = this.open.get(key);
    if (span) {
      span.to = event.at;
      span.outcome = outcome;
      this.open.delete(key);
    }
    return span;
  }

  /** Forgets what agents of a level were saying. */
  hush(path: readonly string[]): void {
    for (const place of [...this.saying.keys()]) {
      if (place.startsWith(`${levelOf(path)}\u0000`)) this.saying.delete(place);
    }
  }

  stopAll(event: RunEvent, kind: SpanKind): void {
    for (const [key, span] of this.open) {
      if (!key.startsWith(`${event.run} ${kind} `)) continue;
      span.to = event.at;
      this.open.delete(key);
    }
  }

  ask(path: readonly string[], name: string, token: string): void {
    this.questions.set(token, placeKey(path, name));
    this.waiting.add(placeKey(path, name));
  }

  answer(event: RunEvent, outcome: string): void {
    const token = textOf(event, "token");
    this.stop(event, "wait", token, outcome);
    const place = this.questions.get(token);
    this.questions.delete(token);
    if (place && ![...this.questions.values()].includes(place)) this.waiting.delete(place);
  }

  enter(path: readonly string[], name: string): void {
    const place = placeKey(path, name);
    this.active.add(place);
    this.visits.set(place, (this.visits.get(place) ?? 0) + 1);
  }

  exit(path: readonly string[], name: string): void {
    this.active.delete(placeKey(path, name));
  }

  step(path: readonly string[], from: string, to: string, signal: string): void {
    this.steps.push({ level: levelOf(path), from, to, signal });
  }
}

export function placeKey(path: readonly string[], name: string): string {
  return `${levelOf(path)}\u0000${name}`;
}

function lane(path: readonly string[], name: string): string {
  return [...path, name].join(" › ");
}

/** Who asked or answered, where the journal says it. */
function byNote(event: RunEvent): string {
  const by = textOf(event, "by");
  return by ? `by ${by}` : "";
}

export type Happens = (story: Story, event: RunEvent, path: readonly string[]) => void;

const HAPPENS: Record<string, Happens> = {
  ...MAIL,
  "run.started": (story, event, path) => {
    if (!path.length) {
      story.status = "running";
      story.say(event, "input", "you", textOf(event, "input"), byNote(event));
    }
  },
  "turn.started": (story, event, path) => {
    const back = story.returning.get(levelOf(path));
    if (back) story.step(path, back, textOf(event, "agent"), "");
    story.returning.delete(levelOf(path));
    story.enter(path, textOf(event, "agent"));
  },
  "model.called": (story, event, path) => {
    const agent = textOf(event, "agent");
    story.active.add(placeKey(path, agent));
    story.saying.delete(placeKey(path, agent));
    story.start(event, "model", textOf(event, "call"), lane(path, agent), textOf(event, "model") || "model");
  },
  "model.replied": (story, event, path) => {
    const agent = textOf(event, "agent");
    story.saying.delete(placeKey(path, agent));
    const span = story.stop(event, "model", textOf(event, "call"), "ok");
    story.replies.delete(placeKey(path, agent));
    const call = callFacts(event, span);
    // What a call for a choice or a verdict came to is told by the event that follows it.
    if (textOf(event, "text") && !textOf(event, "purpose"))
      story.replies.set(placeKey(path, agent), story.say(event, "reply", agent, textOf(event, "text"), "", call));
    story.tokens += call.tokens;
    story.costMicros += call.costMicros;
    story.unpricedCalls += call.isUnpriced ? 1 : 0;
  },
  "model.failed": (story, event, path) => {
    const agent = textOf(event, "agent");
    story.saying.delete(placeKey(path, agent));
    story.stop(event, "model", textOf(event, "call"), "failed");
    story.say(event, "failure", agent, textOf(event, "error"), "model call failed");
  },
  "model.cancelled": (story, event, path) => {
    story.saying.delete(placeKey(path, textOf(event, "agent")));
    story.stop(event, "model", textOf(event, "call"), "cancelled");
  },
  "tool.called": (story, event, path) => {
    const agent = textOf(event, "agent");
    const name = textOf(event, "name");
    story.start(event, "tool", textOf(event, "call"), lane(path, agent), name);
    if (!TELLS.has(name))
      story.toolEntries.set(`${event.run} ${textOf(event, "call")}`, story.say(event, "tool", agent, textOf(event, "arguments"), name));
  },
  "tool.returned": (story, event) => {
    const isFailed = event["ok"] === false;
    const span = story.stop(event, "tool", textOf(event, "call"), isFailed ? "failed" : "ok");
    const name = span?.label ?? "tool";
    const key = `${event.run} ${textOf(event, "call")}`;
    const result = { text: textOf(event, "output"), isFailed, ms: span ? event.at - span.from : 0 };
    const isShown = story.amend(story.toolEntries.get(key), { result });
    story.toolEntries.delete(key);
    if (!isShown && (isFailed || !TELLS.has(name)))
      story.say(event, "tool", name, result.text, isFailed ? "failed" : "returned");
  },
  "signal.seen": (story, event, path) => story.mark(placeKey(path, textOf(event, "agent")), textOf(event, "signal")),
  decision: (story, event, path) => {
    const agent = textOf(event, "agent");
    const verb = textOf(event, "verb");
    const to = verb === "end" ? END : textOf(event, "target");
    markCandidates(story, event, placeKey(path, agent));
    if (!verb || verb === "tell") return;
    story.exit(path, agent);
    story.step(path, agent, to || agent, textOf(event, "signal"));
  },
  handoff: (story, event, path) => {
    story.exit(path, textOf(event, "from"));
    story.step(path, textOf(event, "from"), textOf(event, "to"), textOf(event, "signal"));
  },
  "group.started": (story, event, path) => {
    const group = textOf(event, "group");
    story.enter(path, group);
    for (const member of namesOf(event, "members")) story.step(path, group, member, "");
  },
  "branch.finished": (story, event, path) => story.exit(path, textOf(event, "agent")),
  "group.joined": (story, event, path) => {
    story.exit(path, textOf(event, "group"));
    story.returning.set(levelOf(path), textOf(event, "group"));
  },
  "child.started": (story, event, path) => {
    const crew = textOf(event, "crew");
    story.enter(path, crew);
    if (textOf(event, "message_id")) story.entrusted.add(textOf(event, "child"));
    story.start(event, "child", textOf(event, "child"), lane(path, crew), crew);
  },
  "child.finished": (story, event, path) => {
    story.exit(path, textOf(event, "crew"));
    if (!story.entrusted.has(textOf(event, "child"))) story.returning.set(levelOf(path), textOf(event, "crew"));
    story.stop(event, "child", textOf(event, "child"), textOf(event, "status"));
  },
  "input.requested": (story, event, path) => {
    const agent = textOf(event, "agent");
    story.ask(path, agent, textOf(event, "token"));
    story.start(event, "wait", textOf(event, "token"), lane(path, agent), "waits for a person");
    const before = story.transcript.at(-1);
    const isSaid = before?.kind === "reply" && before.author === agent && before.text.includes(textOf(event, "question"));
    if (!isSaid) story.say(event, "question", agent, textOf(event, "question"), "asks");
  },
  "input.given": (story, event) => story.answer(event, "answered"),
  "input.expired": (story, event) => story.answer(event, "nobody answered in time"),
  "run.paused": (story, event, path) => {
    // A call that was in progress is made again after the resume, from its first word.
    if (isResting(textOf(event, "reason"))) story.hush(path);
    if (path.length) return;
    story.status = "paused";
    story.reason = textOf(event, "reason");
  },
  "run.resumed": (story, event, path) => {
    if (!path.length) {
      story.status = "running";
      story.reason = "";
    }
    if (textOf(event, "input")) story.say(event, "answer", "you", textOf(event, "input"), byNote(event));
  },
  "cancel.requested": (story, event, path) => {
    if (!path.length) story.say(event, "note", "you", "", `cancelled by ${textOf(event, "by")}`);
  },
  "run.finished": (story, event, path) => {
    for (const place of [...story.active]) {
      if (place.startsWith(path.length ? `${levelOf(path)}\u0000` : "")) story.active.delete(place);
    }
    story.stopAll(event, "model");
    story.stopAll(event, "tool");
    story.stopAll(event, "wait");
    if (path.length) return;
    story.waiting.clear();
    story.saying.clear();
    story.status = textOf(event, "status");
    story.reason = textOf(event, "reason");
    story.detail = textOf(event, "detail");
    story.say(event, "end", textOf(event, "agent"), "", `${story.status}: ${story.reason}`);
  },
};

function callFacts(event: RunEvent, span: Span | undefined): CallFacts {
  const usage = event["usage"];
  const used = isRecord(usage) ? { ...event, ...usage } : event;
  return {
    model: textOf(event, "model"),
    tokens: numberOf(used, "input_tokens") + numberOf(used, "output_tokens"),
    costMicros: numberOf(used, "cost_micros"),
    isUnpriced: numberOf(used, "unpriced_calls") > 0,
    ms: span ? event.at - span.from : 0,
  };
}

/** A decision knows where in the reply each signal stands: places count characters, and not halves of them. */
function markCandidates(story: Story, event: RunEvent, place: string): void {
  const at = story.replies.get(place);
  const reply = at === undefined ? undefined : story.transcript[at];
  const candidates = event["candidates"];
  if (!reply || !Array.isArray(candidates)) return;
  const letters = [...reply.text];
  for (const each of candidates.filter(isRecord)) {
    const spelling = letters.slice(Number(each["start"]), Number(each["end"])).join("");
    if (spelling.length < SPELLING_MAX) story.mark(place, spelling.trim());
  }
}

const SPELLING_MAX = 200;

export function storyOf(events: readonly RunEvent[], upTo = events.length): Story {
  const story = new Story();
  for (let n = 0; n < upTo; n += 1) {
    const event = events[n];
    if (event) story.take(event);
  }
  return story;
}
