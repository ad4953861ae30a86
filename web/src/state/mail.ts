/** What agents say to each other by messages, as a story tells it. */
import { isRecord, namesOf, textOf, type RunEvent } from "../api/events";
import { placeKey, type Happens } from "./story";

/** Tools that are messages: the message tells what the call would. */
export const TELLS = new Set(["delegate", "report", "query_parent", "answer_child", "ask_user"]);

const WORDS: Record<string, { readonly field: string; readonly note: (to: string, status: string) => string }> = {
  DELEGATE: { field: "task", note: (to) => `gives a task to ${to}` },
  REPORT: { field: "result", note: (to, status) => `reports to ${to}: ${status.replace("_", " ")}` },
  QUERY: { field: "question", note: (to) => `asks ${to}` },
  ANSWER: { field: "answer", note: (to) => `answers ${to}` },
};

const OVER = new Set(["completed", "error", "idle"]);

export const MAIL: Record<string, Happens> = {
  "message.sent": (story, event, path) => {
    const message = event["message"];
    if (!isRecord(message) || event["attempt"]) return; // one that is sent again says the same
    const told = { ...event, ...message } as RunEvent;
    const words = WORDS[textOf(told, "type")];
    if (!words) return; // what a person is asked and says is told by the run
    const from = textOf(told, "from");
    const to = textOf(told, "to");
    story.say(event, "message", from, textOf(told, words.field), words.note(to, textOf(told, "status")));
    if (textOf(told, "type") === "DELEGATE") story.step(path, from, to, "");
  },
  "children.selected": (story, event) => {
    const chosen = namesOf(event, "children").join(", ");
    story.say(event, "note", textOf(event, "agent"), "", chosen ? `needs ${chosen}` : "needs nobody");
  },
  "report.checked": (story, event) => {
    const report = textOf(event, "message_id").split(":").at(-1) ?? "";
    const verdict = event["ok"] === true ? "is accepted" : "is not accepted";
    story.say(event, "note", `report ${report}`, textOf(event, "reason"), verdict);
  },
  "agent.state": (story, event, path) => {
    const place = placeKey(path, textOf(event, "agent"));
    const state = textOf(event, "state");
    story.states.set(place, state);
    if (OVER.has(state)) story.exit(path, textOf(event, "agent"));
    else story.active.add(place);
  },
};
