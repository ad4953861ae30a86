"""The progress of a run for its viewers: a fold of its public events.

Rule 1: times are those of the events; durations of open calls use the clock of the caller.
Rule 2: texts are kept as received, and made safe when shown.
Rule 3: the memory is bounded by the crew, whatever the length of the run.
Rule 4: calls, cost and questions include sub-crews; position and status are the run's own.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from interlock.cli.view.answer_hints import approval_text
from interlock.cli.view.message_transcript import utc_text
from interlock.cli.view.narration import OpenCalls
from interlock.cli.view.transcript import TranscriptLine, lines_of
from interlock.engine.events import Usage
from interlock.engine.routing.candidates import Verb
from interlock.ids import full_name, is_below, run_of

# More than the tallest terminal shows; the whole transcript is printed when the view closes.
LINES_MAX = 500

# Of a streaming reply: enough for the widest terminal.
TAIL_CHARS_MAX = 500

Public = Mapping[str, Any]


class ActiveCall(msgspec.Struct, kw_only=True):
    """A call in progress: of a model or a tool, or the wait before a retry. `path` leads to the agent's crew."""

    agent: str
    path: tuple[str, ...] = ()
    since_ms: int
    tool: str = ""
    attempt: int = 0
    tail: str = ""
    is_reasoning: bool = False  # the tail is not yet of the reply
    error: str = ""

    @property
    def name(self) -> str:
        return full_name(self.path, self.agent)

    @property
    def activity(self) -> str:
        if self.error:
            return "waits to retry"
        if self.tool:
            return f"uses {self.tool}"
        again = f", attempt {self.attempt + 1}" if self.attempt else ""
        return ("replies" if self.tail and not self.is_reasoning else "thinks") + again


class PendingQuestion(NamedTuple):
    """A question of a run or its sub-crews; the token identifies it."""

    token: str
    agent: str
    text: str
    expects: str = ""


class ControlEdge(NamedTuple):
    """An edge of the graph that control has taken; an end has an empty target."""

    source: str
    signal: str
    target: str


class Progress:
    """Active calls, edges taken, and usage. `watched_ms` is when the display started.

    `python_crew` is the crew in Python whose functions the run needs, as a command names it.
    """

    def __init__(self, watched_ms: int = 0, python_crew: str = "") -> None:
        self.watched_ms, self.python_crew = watched_ms, python_crew
        self.shows_from_ms = 0  # earlier events are not shown
        self.run = self.position = self.reason = ""
        self.status = "running"
        self.seq = self.handoffs = 0
        self.usage = Usage()
        self.work: dict[tuple[str, str], ActiveCall] = {}
        self.visits: Counter[str] = Counter()
        self.edges_taken: Counter[ControlEdge] = Counter()
        self.group = ""
        self.branches: dict[str, dict[str, str]] = {}
        self.questions: dict[str, PendingQuestion] = {}
        self._ids: dict[str, str] = {}  # by token: the name of the question, which stays when it is asked again
        self._asked_at: dict[str, int] = {}  # by that name
        self.open_calls: OpenCalls = {}
        self.children: dict[str, str] = {}  # active sub-crews, by run
        self._called = ""
        self._returned: list[str] = []
        self._delegated: set[str] = set()  # child runs that work on a task
        self.lines: deque[TranscriptLine] = deque(maxlen=LINES_MAX)
        self._spent_ms = 0
        self._since_ms: int | None = None

    def apply_event(self, event: Public) -> None:
        """Apply an event of the run or of a sub-crew."""
        self.run = self.run or event["run"]
        own = event["run"] == self.run
        if own:
            self.seq = event.get("seq", self.seq)
        if self.is_new(event):
            self.lines.extend(lines_of(dict(event)))
        follow = (_OWN_RUN_HANDLERS.get(event["type"]) if own else None) or _ANY_RUN_HANDLERS.get(event["type"])
        if follow is not None:
            follow(self, event)

    def is_new(self, event: Public) -> bool:
        """Whether the event is recent enough to show; deltas have no time and always are."""
        at: int = event.get("at", self.shows_from_ms)
        return at >= self.shows_from_ms

    def working_ms(self, now_ms: int) -> int:
        """The working time of the run, without pauses and without the time when no process ran it."""
        if self._since_ms is None:
            return self._spent_ms
        start = self._since_ms if now_ms < self.watched_ms else max(self._since_ms, self.watched_ms)
        return self._spent_ms + max(0, now_ms - start)

    def active_calls(self) -> list[ActiveCall]:
        """Each working agent with its oldest call."""
        agents: dict[tuple[str, str], ActiveCall] = {}
        for (run, _), work in self.work.items():
            agents.setdefault((run, work.agent), work)
        return list(agents.values())

    def is_working(self, name: str) -> bool:
        """Whether an agent, sub-crew or group of the run's own crew works."""
        if name in self.children.values() or (name == self.group and self.status == "running"):
            return True
        return any(run == self.run and work.agent == name for (run, _), work in self.work.items())

    def has_open_question(self, name: str) -> bool:
        """Whether the agent, or an agent in the sub-crew, of this name has an open question."""
        return any(question.agent.partition("/")[0] == name for question in self.questions.values())

    # Calls

    def _on_model_called(self, event: Public) -> None:
        self._drop_calls_of(event["run"], event["agent"])
        self._start_call(event, attempt=event["attempt"])

    def _on_tool_called(self, event: Public) -> None:
        self._start_call(event, tool=event["name"])

    def _start_call(self, event: Public, *, attempt: int = 0, tool: str = "") -> None:
        # A call of a dead process was not in progress before the display started.
        since_ms = max(event["at"], self.watched_ms)
        self.work[event["run"], event["call"]] = ActiveCall(
            agent=event["agent"], path=_path_of(event), since_ms=since_ms, attempt=attempt, tool=tool
        )

    def _on_delta(self, event: Public) -> None:
        is_reasoning = event["type"] == "reasoning.delta"
        for (run, _), work in self.work.items():
            if run == event["run"] and work.agent == event["agent"] and not work.tool:
                said = work.tail if work.is_reasoning is is_reasoning or event.get("takes_back") else ""
                work.tail, work.is_reasoning = (said + event["text"])[-TAIL_CHARS_MAX:], is_reasoning

    def _on_tool_progress(self, event: Public) -> None:
        if work := self.work.get((event["run"], event["call"])):
            work.tail = event["text"][-TAIL_CHARS_MAX:]

    def _on_model_replied(self, event: Public) -> None:
        self.usage += msgspec.convert(event["usage"], Usage) + Usage(calls=1)
        self._end_call(event)

    def _on_model_failed(self, event: Public) -> None:
        self.usage += msgspec.convert(event["usage"], Usage) + Usage(calls=1)
        work = self.work.get((event["run"], event["call"]))
        if work is not None and event["retry"]:
            work.error, work.tail = event["error"], event["error"]
        else:
            self._end_call(event)

    def _on_model_lost(self, event: Public) -> None:
        self.usage += msgspec.convert(event["usage"], Usage) + Usage(calls=1)

    def _end_call(self, event: Public) -> None:
        self.work.pop((event["run"], event["call"]), None)

    def _drop_calls_of(self, run: str, agent: str) -> None:
        self.work = {key: work for key, work in self.work.items() if (key[0], work.agent) != (run, agent)}

    # Control

    def _on_turn_started(self, event: Public) -> None:
        self.visits[event["agent"]] += 1
        if not self.group:
            self.position = event["agent"]
            self.edges_taken.update(ControlEdge(crew, "", event["agent"]) for crew in self._returned)
            self._returned = []

    def _on_decision(self, event: Public) -> None:
        waits_there = event["verb"] == Verb.AWAIT and not event["target"]
        if event["verb"] is not None:
            self.edges_taken[
                ControlEdge(event["agent"], event["signal"], event["agent"] if waits_there else event["target"])
            ] += 1
        joined = [each for each in event.get("candidates", ()) if each["outcome"] == "joined"]
        self.edges_taken.update(ControlEdge(event["agent"], each["signal"], each["target"]) for each in joined)

    def _on_handoff(self, event: Public) -> None:
        self.handoffs += 1

    def _on_group_started(self, event: Public) -> None:
        self.handoffs += 1
        self.visits[event["group"]] += 1
        self.group = self.position = event["group"]
        self.branches[self.group] = dict.fromkeys(event["members"], "working")

    def _on_branch_finished(self, event: Public) -> None:
        self.branches.setdefault(self.group, {})[event["agent"]] = event["status"]
        self._drop_calls_of(event["run"], event["agent"])

    def _on_group_joined(self, event: Public) -> None:
        self.edges_taken[ControlEdge(event["group"], "", event["next"])] += 1
        self.group = ""

    # Sub-crews

    def _on_child_started(self, event: Public) -> None:
        self.children[event["child"]] = event["crew"]
        self.visits[event["crew"]] += 1
        if event.get("message_id"):  # a delegated task: control stays with the caller
            self._delegated.add(event["child"])
            return
        if self.group:
            return
        departure = event["call"].partition(".")[0]  # all calls of one reply are one departure
        self.handoffs += departure != self._called
        self._called, self.position = departure, event["crew"]

    def _on_child_finished(self, event: Public) -> None:
        self._drop_run(event["child"])
        self.children.pop(event["child"], None)
        if not self.group and event["child"] not in self._delegated:
            self._returned.append(event["crew"])

    def _on_descendant_finished(self, event: Public) -> None:
        self._drop_run(event["run"])

    def _drop_run(self, run: str) -> None:
        """Remove the calls and questions of a run and its sub-crews."""
        self.work = {key: work for key, work in self.work.items() if not _is_in_tree(key[0], run)}
        self.questions = {
            token: question for token, question in self.questions.items() if not _is_in_tree(run_of(token), run)
        }

    # The run itself

    def _on_run_continued(self, event: Public) -> None:
        self.status, self.reason = "running", ""
        if self._since_ms is None:
            self._since_ms = event["at"]

    def _on_input_requested(self, event: Public) -> None:
        agent = full_name(_path_of(event), event["agent"])
        context = f"context: {' '.join(event['context'].split())}\n" if event.get("context") else ""
        expects = f"\n({event['expects']})" if event.get("expects") else ""
        name = event.get("message_id") or event.get("again_of") or event["token"]
        self._ids[event["token"]] = name
        asked_at = self._asked_at.setdefault(name, event["at"])
        until = f"\n(until {utc_text(asked_at + event['deadline_ms'])} UTC)" if event.get("deadline_ms") else ""
        text = f"{context}{approval_text(event['question'])}{expects}{until}"
        self.questions[event["token"]] = PendingQuestion(event["token"], agent, text, event.get("expects", ""))

    def _on_input_given(self, event: Public) -> None:
        self.questions.pop(event["token"], None)

    def _on_input_expired(self, event: Public) -> None:
        """Remove the question: its agent continues without an answer."""
        self.questions = {token: q for token, q in self.questions.items() if self._ids.get(token) != event["token"]}

    def _on_run_paused(self, event: Public) -> None:
        self._set_status(event, "paused")

    def _on_run_finished(self, event: Public) -> None:
        self._set_status(event, event["status"])
        self.work.clear()
        self.questions.clear()
        self.children.clear()

    def _set_status(self, event: Public, status: str) -> None:
        self.status, self.reason = status, event["reason"]
        self._spent_ms, self._since_ms = self.working_ms(event["at"]), None


def _path_of(event: Public) -> tuple[str, ...]:
    return tuple(event.get("path", ()))


def _is_in_tree(run: str, tree: str) -> bool:
    return run == tree or is_below(run, tree)


EventHandler = Callable[[Progress, Public], None]

_ANY_RUN_HANDLERS: Mapping[str, EventHandler] = {
    "model.called": Progress._on_model_called,
    "model.delta": Progress._on_delta,
    "reasoning.delta": Progress._on_delta,
    "model.replied": Progress._on_model_replied,
    "model.failed": Progress._on_model_failed,
    "model.lost": Progress._on_model_lost,
    "model.cancelled": Progress._end_call,
    "tool.called": Progress._on_tool_called,
    "tool.progress": Progress._on_tool_progress,
    "tool.returned": Progress._end_call,
    "tool.lost": Progress._end_call,
    "input.requested": Progress._on_input_requested,
    "input.given": Progress._on_input_given,
    "run.finished": Progress._on_descendant_finished,
}
_OWN_RUN_HANDLERS: Mapping[str, EventHandler] = {
    "turn.started": Progress._on_turn_started,
    "decision": Progress._on_decision,
    "handoff": Progress._on_handoff,
    "group.started": Progress._on_group_started,
    "branch.finished": Progress._on_branch_finished,
    "group.joined": Progress._on_group_joined,
    "child.started": Progress._on_child_started,
    "child.finished": Progress._on_child_finished,
    "child.goes_on": Progress._on_run_continued,
    "run.started": Progress._on_run_continued,
    "run.resumed": Progress._on_run_continued,
    "input.expired": Progress._on_input_expired,
    "run.paused": Progress._on_run_paused,
    "run.finished": Progress._on_run_finished,
}
