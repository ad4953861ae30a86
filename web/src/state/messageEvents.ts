/** Handlers for messages between agents. */
import { isRecord, namesOf, textOf, type RunEvent } from "../api/events";
import { nodeKey, type EventHandler } from "./runProjection";

/** Tools that send a message: the transcript shows the message and not the call. */
export const MESSAGE_TOOLS = new Set(["delegate", "report", "query_parent", "answer_child", "ask_user"]);

const MESSAGE_NOTES: Record<string, { readonly field: string; readonly note: (to: string, status: string) => string }> = {
  DELEGATE: { field: "task", note: (to) => `gives a task to ${to}` },
  REPORT: { field: "result", note: (to, status) => `reports to ${to}: ${status.replace("_", " ")}` },
  QUERY: { field: "question", note: (to) => `asks ${to}` },
  ANSWER: { field: "answer", note: (to) => `answers ${to}` },
};

const INACTIVE_STATES = new Set(["completed", "error", "idle"]);

export const MESSAGE_HANDLERS: Record<string, EventHandler> = {
  "message.sent": (projection, event, path) => {
    const message = event["message"];
    if (!isRecord(message) || event["attempt"]) return; // a repeated message says the same
    const fields = { ...event, ...message } as RunEvent;
    const words = MESSAGE_NOTES[textOf(fields, "type")];
    if (!words) return; // the run's own events show what a person is asked and answers
    const from = textOf(fields, "from");
    const to = textOf(fields, "to");
    projection.addEntry(event, "message", from, textOf(fields, words.field), words.note(to, textOf(fields, "status")));
    if (textOf(fields, "type") === "DELEGATE") projection.addStep(path, from, to, "");
  },
  "children.selected": (projection, event) => {
    const chosen = namesOf(event, "children").join(", ");
    projection.addEntry(event, "note", textOf(event, "agent"), "", chosen ? `needs ${chosen}` : "needs no child");
  },
  "report.checked": (projection, event) => {
    const report = textOf(event, "message_id").split(":").at(-1) ?? "";
    const verdict = event["ok"] === true ? "is accepted" : "is not accepted";
    projection.addEntry(event, "note", `report ${report}`, textOf(event, "reason"), verdict);
  },
  "agent.state": (projection, event, path) => {
    const place = nodeKey(path, textOf(event, "agent"));
    const state = textOf(event, "state");
    projection.states.set(place, state);
    if (INACTIVE_STATES.has(state)) projection.deactivate(path, textOf(event, "agent"));
    else projection.active.add(place);
  },
};
