/** The state of a run, built from its events. Rule: only `apply` changes a projection, and it depends on the events alone. */
import { isDelta, isRecord, namesOf, numberOf, textOf, type Delta, type ReasoningDelta, type RunEvent, type StreamEvent } from "../api/events";
import { MESSAGE_HANDLERS, MESSAGE_TOOLS } from "./messageEvents";
import { needsResume } from "./format";

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
  /** What the model thought before its reply. */
  readonly reasoning?: string;
  /** What the model call behind a reply took. */
  readonly call?: CallFacts;
  /** What a tool returned. */
  readonly result?: ToolResult;
}

/** A reply that is still streaming, and what its model has thought so far. */
export interface PartialReply {
  readonly text: string;
  readonly reasoning: string;
}

const NOTHING_SAID: PartialReply = { text: "", reasoning: "" };

export interface CallFacts {
  /** Empty if it is the agent's own model. */
  readonly model: string;
  readonly tokens: number;
  /** Those that the provider read from its cache. */
  readonly cachedTokens: number;
  readonly costMicros: number;
  /** Whether the model has no known price: then the cost is unknown, not zero. */
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

/** A transfer of control: `level` names the sub-crews above it. */
export interface Step {
  readonly level: string;
  readonly from: string;
  readonly to: string;
  readonly signal: string;
}

export const END = "\u0000end";
const NO_PATH: readonly string[] = [];

export function pathLabel(path: readonly string[]): string {
  return path.join(" › ");
}

export class RunProjection {
  readonly transcript: TranscriptEntry[] = [];
  readonly spans: Span[] = [];
  readonly lanes: string[] = [];
  readonly steps: Step[] = [];
  /** The agents at work, the agents that wait, and the number of turns of each, by level and name. */
  readonly active = new Set<string>();
  readonly waiting = new Set<string>();
  readonly visits = new Map<string, number>();
  /** The state of an agent, from `agent.state`. */
  readonly states = new Map<string, string>();
  /** Replies that are still streaming, by level and name. */
  readonly partialReplies = new Map<string, PartialReply>();
  status = "running";
  reason = "";
  detail = "";
  begin = 0;
  now = 0;
  eventCount = 0;
  tokens = 0;
  cachedTokens = 0;
  costMicros = 0;
  unpricedCalls = 0;
  /** Crews and groups that have returned, until the next turn shows to which agent; by level. */
  readonly pendingReturns = new Map<string, string>();
  /** Child runs that work on a task: control stays with the parent. */
  readonly delegatedRuns = new Set<string>();
  /** The agent of each open question, by token. */
  private readonly questions = new Map<string, string>();
  private readonly open = new Map<string, Span>();
  private readonly knownLanes = new Set<string>();
  /** Positions in the transcript: of open tool calls, and of the newest reply by level and name. */
  readonly toolEntries = new Map<string, number>();
  readonly replies = new Map<string, number>();

  apply(event: StreamEvent): void {
    if (!isDelta(event)) this.applyEvent(event);
    else if (event.type !== "tool.progress") this.applyDelta(event);
  }

  private applyDelta(delta: Delta | ReasoningDelta): void {
    const place = nodeKey(delta.path ?? NO_PATH, delta.agent);
    const { text, reasoning } = this.partialReplies.get(place) ?? NOTHING_SAID;
    if (delta.type === "model.delta") this.partialReplies.set(place, { text: text + delta.text, reasoning });
    else if (delta.takes_back) this.partialReplies.set(place, { text: "", reasoning: reasoning + text + delta.text });
    else this.partialReplies.set(place, { text, reasoning: reasoning + delta.text });
  }

  private applyEvent(event: RunEvent): void {
    this.eventCount += 1;
    this.begin ||= event.at;
    this.now = Math.max(this.now, event.at);
    EVENT_HANDLERS[event.type]?.(this, event, event.path ?? NO_PATH);
  }

  addEntry(event: RunEvent, kind: EntryKind, author: string, text: string, note = "", call?: CallFacts): number {
    const path = event.path ?? NO_PATH;
    const entry = { key: `${event.run}.${event.seq}`, at: event.at, author, kind, text, path, note };
    return this.transcript.push(call ? { ...entry, call } : entry) - 1;
  }

  /** Replaces the entry and never changes it: a view may compare entries by identity. */
  updateEntry(at: number | undefined, more: Partial<TranscriptEntry>): boolean {
    const entry = at === undefined ? undefined : this.transcript[at];
    if (at === undefined || !entry) return false;
    this.transcript[at] = { ...entry, ...more };
    return true;
  }

  /** Adds a signal to the newest reply of an agent. */
  addMark(place: string, spelling: string): void {
    const at = this.replies.get(place);
    const marks = at === undefined ? [] : (this.transcript[at]?.marks ?? []);
    if (spelling && !marks.includes(spelling)) this.updateEntry(at, { marks: [...marks, spelling] });
  }

  startSpan(event: RunEvent, kind: SpanKind, call: string, lane: string, label: string): void {
    const key = `${event.run} ${kind} ${call}`;
    const span: Span = { key: `${key} ${event.seq}`, lane, kind, label, from: event.at, to: null, outcome: "" };
    if (!this.knownLanes.has(lane)) {
      this.knownLanes.add(lane);
      this.lanes.push(lane);
    }
    this.open.set(key, span);
    this.spans.push(span);
  }

  endSpan(event: RunEvent, kind: SpanKind, call: string, outcome: string): Span | undefined {
    const key = `${event.run} ${kind} ${call}`;
    const span = this.open.get(key);
    if (span) {
      span.to = event.at;
      span.outcome = outcome;
      this.open.delete(key);
    }
    return span;
  }

  /** Drops the partial reply that a repeated event completes. Returns whether there was one. */
  dropPartialReply(event: RunEvent): boolean {
    const [path, before] = [event.path ?? NO_PATH, this.partialReplies.size];
    if (event.type.startsWith("model.")) this.partialReplies.delete(nodeKey(path, textOf(event, "agent")));
    else if (event.type === "run.finished") path.length ? this.clearPartialReplies(path) : this.partialReplies.clear();
    return this.partialReplies.size < before;
  }

  /** Drops the partial replies of a level. */
  clearPartialReplies(path: readonly string[]): void {
    for (const place of [...this.partialReplies.keys()]) {
      if (place.startsWith(`${pathLabel(path)}\u0000`)) this.partialReplies.delete(place);
    }
  }

  endSpans(event: RunEvent, kind: SpanKind): void {
    for (const [key, span] of this.open) {
      if (!key.startsWith(`${event.run} ${kind} `)) continue;
      span.to = event.at;
      this.open.delete(key);
    }
  }

  addQuestion(path: readonly string[], name: string, token: string): void {
    this.questions.set(token, nodeKey(path, name));
    this.waiting.add(nodeKey(path, name));
  }

  removeQuestion(event: RunEvent, outcome: string): void {
    const token = textOf(event, "token");
    this.endSpan(event, "wait", token, outcome);
    const place = this.questions.get(token);
    this.questions.delete(token);
    if (place && ![...this.questions.values()].includes(place)) this.waiting.delete(place);
  }

  activate(path: readonly string[], name: string): void {
    const place = nodeKey(path, name);
    this.active.add(place);
    this.visits.set(place, (this.visits.get(place) ?? 0) + 1);
  }

  deactivate(path: readonly string[], name: string): void {
    this.active.delete(nodeKey(path, name));
  }

  addStep(path: readonly string[], from: string, to: string, signal: string): void {
    this.steps.push({ level: pathLabel(path), from, to, signal });
  }
}

export function nodeKey(path: readonly string[], name: string): string {
  return `${pathLabel(path)}\u0000${name}`;
}

function laneName(path: readonly string[], name: string): string {
  return [...path, name].join(" › ");
}

/** The user that started or answered, if the journal names one. */
function byNote(event: RunEvent): string {
  const by = textOf(event, "by");
  return by ? `by ${by}` : "";
}

export type EventHandler = (projection: RunProjection, event: RunEvent, path: readonly string[]) => void;

const EVENT_HANDLERS: Record<string, EventHandler> = {
  ...MESSAGE_HANDLERS,
  "run.started": (projection, event, path) => {
    if (!path.length) {
      projection.status = "running";
      projection.addEntry(event, "input", "you", textOf(event, "input"), byNote(event));
    }
  },
  "turn.started": (projection, event, path) => {
    const back = projection.pendingReturns.get(pathLabel(path));
    if (back) projection.addStep(path, back, textOf(event, "agent"), "");
    projection.pendingReturns.delete(pathLabel(path));
    projection.activate(path, textOf(event, "agent"));
  },
  "model.called": (projection, event, path) => {
    const agent = textOf(event, "agent");
    projection.active.add(nodeKey(path, agent));
    projection.partialReplies.delete(nodeKey(path, agent));
    projection.startSpan(event, "model", textOf(event, "call"), laneName(path, agent), textOf(event, "model") || "model");
  },
  "model.replied": (projection, event, path) => {
    const agent = textOf(event, "agent");
    projection.partialReplies.delete(nodeKey(path, agent));
    const span = projection.endSpan(event, "model", textOf(event, "call"), "ok");
    projection.replies.delete(nodeKey(path, agent));
    const call = callFacts(event, span);
    // The result of a call for a choice or a verdict is in the event that follows it.
    const reasoning = textOf(event, "reasoning");
    if ((textOf(event, "text") || reasoning) && !textOf(event, "purpose")) {
      const at = projection.addEntry(event, "reply", agent, textOf(event, "text"), "", call);
      projection.replies.set(nodeKey(path, agent), at);
      if (reasoning) projection.updateEntry(at, { reasoning });
    }
    projection.tokens += call.tokens;
    projection.cachedTokens += call.cachedTokens;
    projection.costMicros += call.costMicros;
    projection.unpricedCalls += call.isUnpriced ? 1 : 0;
  },
  "model.failed": (projection, event, path) => {
    const agent = textOf(event, "agent");
    projection.partialReplies.delete(nodeKey(path, agent));
    projection.endSpan(event, "model", textOf(event, "call"), "failed");
    projection.addEntry(event, "failure", agent, textOf(event, "error"), "model call failed");
  },
  "model.cancelled": (projection, event, path) => {
    projection.partialReplies.delete(nodeKey(path, textOf(event, "agent")));
    projection.endSpan(event, "model", textOf(event, "call"), "cancelled");
  },
  "tool.called": (projection, event, path) => {
    const agent = textOf(event, "agent");
    const name = textOf(event, "name");
    projection.startSpan(event, "tool", textOf(event, "call"), laneName(path, agent), name);
    if (!MESSAGE_TOOLS.has(name))
      projection.toolEntries.set(`${event.run} ${textOf(event, "call")}`, projection.addEntry(event, "tool", agent, textOf(event, "arguments"), name));
  },
  "tool.returned": (projection, event) => {
    const isFailed = event["ok"] === false;
    const span = projection.endSpan(event, "tool", textOf(event, "call"), isFailed ? "failed" : "ok");
    const name = span?.label ?? "tool";
    const key = `${event.run} ${textOf(event, "call")}`;
    const result = { text: textOf(event, "output"), isFailed, ms: span ? event.at - span.from : 0 };
    const isShown = projection.updateEntry(projection.toolEntries.get(key), { result });
    projection.toolEntries.delete(key);
    if (!isShown && (isFailed || !MESSAGE_TOOLS.has(name)))
      projection.addEntry(event, "tool", name, result.text, isFailed ? "failed" : "returned");
  },
  "signal.seen": (projection, event, path) => projection.addMark(nodeKey(path, textOf(event, "agent")), textOf(event, "signal")),
  decision: (projection, event, path) => {
    const agent = textOf(event, "agent");
    const verb = textOf(event, "verb");
    const to = verb === "end" ? END : textOf(event, "target");
    markCandidates(projection, event, nodeKey(path, agent));
    if (!verb || verb === "tell") return;
    projection.deactivate(path, agent);
    projection.addStep(path, agent, to || agent, textOf(event, "signal"));
  },
  handoff: (projection, event, path) => {
    projection.deactivate(path, textOf(event, "from"));
    projection.addStep(path, textOf(event, "from"), textOf(event, "to"), textOf(event, "signal"));
  },
  "group.started": (projection, event, path) => {
    const group = textOf(event, "group");
    projection.activate(path, group);
    for (const member of namesOf(event, "members")) projection.addStep(path, group, member, "");
  },
  "branch.finished": (projection, event, path) => projection.deactivate(path, textOf(event, "agent")),
  "group.joined": (projection, event, path) => {
    projection.deactivate(path, textOf(event, "group"));
    projection.pendingReturns.set(pathLabel(path), textOf(event, "group"));
  },
  "child.started": (projection, event, path) => {
    const crew = textOf(event, "crew");
    projection.activate(path, crew);
    if (textOf(event, "message_id")) projection.delegatedRuns.add(textOf(event, "child"));
    projection.startSpan(event, "child", textOf(event, "child"), laneName(path, crew), crew);
  },
  "child.finished": (projection, event, path) => {
    projection.deactivate(path, textOf(event, "crew"));
    if (!projection.delegatedRuns.has(textOf(event, "child"))) projection.pendingReturns.set(pathLabel(path), textOf(event, "crew"));
    projection.endSpan(event, "child", textOf(event, "child"), textOf(event, "status"));
  },
  "input.requested": (projection, event, path) => {
    const agent = textOf(event, "agent");
    projection.addQuestion(path, agent, textOf(event, "token"));
    projection.startSpan(event, "wait", textOf(event, "token"), laneName(path, agent), "waits for a person");
    const before = projection.transcript.at(-1);
    const isInReply = before?.kind === "reply" && before.author === agent && before.text.includes(textOf(event, "question"));
    if (!isInReply) projection.addEntry(event, "question", agent, textOf(event, "question"), "asks");
  },
  "input.given": (projection, event) => projection.removeQuestion(event, "answered"),
  "input.expired": (projection, event) => projection.removeQuestion(event, "no answer in time"),
  "run.paused": (projection, event, path) => {
    // A call that was in progress is made again after the resume, from its first word.
    if (needsResume(textOf(event, "reason"))) projection.clearPartialReplies(path);
    if (path.length) return;
    projection.status = "paused";
    projection.reason = textOf(event, "reason");
  },
  "run.resumed": (projection, event, path) => {
    if (!path.length) {
      projection.status = "running";
      projection.reason = "";
    }
    if (textOf(event, "input")) projection.addEntry(event, "answer", "you", textOf(event, "input"), byNote(event));
  },
  "cancel.requested": (projection, event, path) => {
    if (!path.length) projection.addEntry(event, "note", "you", "", `cancelled by ${textOf(event, "by")}`);
  },
  "run.finished": (projection, event, path) => {
    for (const place of [...projection.active]) {
      if (place.startsWith(path.length ? `${pathLabel(path)}\u0000` : "")) projection.active.delete(place);
    }
    projection.endSpans(event, "model");
    projection.endSpans(event, "tool");
    projection.endSpans(event, "wait");
    if (path.length) return;
    projection.waiting.clear();
    projection.partialReplies.clear();
    projection.status = textOf(event, "status");
    projection.reason = textOf(event, "reason");
    projection.detail = textOf(event, "detail");
    projection.addEntry(event, "end", textOf(event, "agent"), "", `${projection.status}: ${projection.reason}`);
  },
};

function callFacts(event: RunEvent, span: Span | undefined): CallFacts {
  const usage = event["usage"];
  const used = isRecord(usage) ? { ...event, ...usage } : event;
  return {
    model: textOf(event, "model"),
    tokens: numberOf(used, "input_tokens") + numberOf(used, "output_tokens"),
    cachedTokens: numberOf(used, "cache_read_tokens"),
    costMicros: numberOf(used, "cost_micros"),
    isUnpriced: numberOf(used, "unpriced_calls") > 0,
    ms: span ? event.at - span.from : 0,
  };
}

/** A decision holds the position of each signal in the reply: positions count characters, not UTF-16 units. */
function markCandidates(projection: RunProjection, event: RunEvent, place: string): void {
  const at = projection.replies.get(place);
  const reply = at === undefined ? undefined : projection.transcript[at];
  const candidates = event["candidates"];
  if (!reply || !Array.isArray(candidates)) return;
  const characters = [...reply.text];
  for (const each of candidates.filter(isRecord)) {
    const spelling = characters.slice(Number(each["start"]), Number(each["end"])).join("");
    if (spelling.length < SPELLING_MAX) projection.addMark(place, spelling.trim());
  }
}

const SPELLING_MAX = 200;

export function projectRun(events: readonly RunEvent[], upTo = events.length): RunProjection {
  const projection = new RunProjection();
  for (let n = 0; n < upTo; n += 1) {
    const event = events[n];
    if (event) projection.apply(event);
  }
  return projection;
}
