"""A run as somebody sees it who watches: a fold of its public events, and nothing else.

Rule 1: time is that of the events; what goes on now is measured against the clock of whoever asks.
Rule 2: what agents say is kept as it came, and made safe where it is shown.
Rule 3: whatever the length of a run, what is kept of it is bounded by its crew.
Rule 4: crews that are called work, cost and ask as well; where control is, and how the run stands, is the run's own.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from interlock.cli.transcript import Line, lines_of
from interlock.engine.events import Usage
from interlock.engine.routing import Verb
from interlock.ids import is_below, placed, run_of

# More than the tallest terminal shows; the whole transcript is printed when the view closes.
LINES_MAX = 500

# Of a reply that is coming in, enough for the widest terminal.
TAIL_CHARS_MAX = 500

Public = Mapping[str, Any]


class Work(msgspec.Struct, kw_only=True):
    """One call under way: of a model, of a tool, or the wait before the next try. `path` leads to the agent's crew."""

    agent: str
    path: tuple[str, ...] = ()
    since_ms: int
    tool: str = ""
    attempt: int = 0
    tail: str = ""
    error: str = ""

    @property
    def name(self) -> str:
        return placed(self.path, self.agent)

    @property
    def doing(self) -> str:
        if self.error:
            return "waits to try again"
        if self.tool:
            return f"uses {self.tool}"
        again = f", try {self.attempt + 1}" if self.attempt else ""
        return ("replies" if self.tail else "thinks") + again


class Question(NamedTuple):
    """What a run, or one below it, waits for; the token is what answers it."""

    token: str
    agent: str
    text: str
    expects: str = ""


class Way(NamedTuple):
    """An arrow of the crew that control has taken; an end is a target without a name."""

    source: str
    signal: str
    target: str


class Progress:
    """Who works, what was taken, what it cost. `watched_ms` is when somebody began to look."""

    def __init__(self, watched_ms: int = 0) -> None:
        self.watched_ms = watched_ms
        self.shows_from_ms = 0  # what happened before is known to whoever reads, and not shown
        self.run = self.position = self.reason = ""
        self.status = "running"
        self.seq = self.handoffs = 0
        self.usage = Usage()
        self.work: dict[tuple[str, str], Work] = {}
        self.visits: Counter[str] = Counter()
        self.taken: Counter[Way] = Counter()
        self.group = ""
        self.branches: dict[str, dict[str, str]] = {}
        self.questions: dict[str, Question] = {}
        self._messages: dict[str, str] = {}  # by token: the message that asked
        self.children: dict[str, str] = {}  # the sub-crews at work, by run
        self._called = ""
        self._came_back: list[str] = []
        self._entrusted: set[str] = set()  # children that work on a task
        self.lines: deque[Line] = deque(maxlen=LINES_MAX)
        self._spent_ms = 0
        self._since_ms: int | None = None

    def take(self, event: Public) -> None:
        """One more event, of the run or of one below it."""
        self.run = self.run or event["run"]
        own = event["run"] == self.run
        if own:
            self.seq = event.get("seq", self.seq)
        if self.is_new(event):
            self.lines.extend(lines_of(dict(event)))
        follow = (_OWN.get(event["type"]) if own else None) or _ANYBODYS.get(event["type"])
        if follow is not None:
            follow(self, event)

    def is_new(self, event: Public) -> bool:
        """Whether it happened since it was to be shown; pieces of replies have no time of their own, and are."""
        at: int = event.get("at", self.shows_from_ms)
        return at >= self.shows_from_ms

    def elapsed_ms(self, now_ms: int) -> int:
        """How long the run has been at work: without its pauses, and without the time it lay there with no process."""
        if self._since_ms is None:
            return self._spent_ms
        begun = self._since_ms if now_ms < self.watched_ms else max(self._since_ms, self.watched_ms)
        return self._spent_ms + max(0, now_ms - begun)

    def at_work(self) -> list[Work]:
        """Each working agent with its oldest call."""
        agents: dict[tuple[str, str], Work] = {}
        for (run, _), work in self.work.items():
            agents.setdefault((run, work.agent), work)
        return list(agents.values())

    def is_at_work(self, name: str) -> bool:
        """An agent, a sub-crew or a group of the run's own crew."""
        if name in self.children.values() or (name == self.group and self.status == "running"):
            return True
        return any(run == self.run and work.agent == name for (run, _), work in self.work.items())

    def is_asked_of(self, name: str) -> bool:
        """Whether somebody waits for an answer to an agent, or to one in a sub-crew, of this name."""
        return any(question.agent.partition("/")[0] == name for question in self.questions.values())

    # Calls

    def _model_called(self, event: Public) -> None:
        self._leave(event["run"], event["agent"])
        self._begin(event, attempt=event["attempt"])

    def _tool_called(self, event: Public) -> None:
        self._begin(event, tool=event["name"])

    def _begin(self, event: Public, *, attempt: int = 0, tool: str = "") -> None:
        # A call that was under way before somebody looked, in a process that is gone, was not waited for since.
        since_ms = max(event["at"], self.watched_ms)
        self.work[event["run"], event["call"]] = Work(
            agent=event["agent"], path=_path(event), since_ms=since_ms, attempt=attempt, tool=tool
        )

    def _delta(self, event: Public) -> None:
        for (run, _), work in self.work.items():
            if run == event["run"] and work.agent == event["agent"] and not work.tool:
                work.tail = (work.tail + event["text"])[-TAIL_CHARS_MAX:]

    def _model_replied(self, event: Public) -> None:
        self.usage += msgspec.convert(event["usage"], Usage) + Usage(calls=1)
        self._call_ended(event)

    def _model_failed(self, event: Public) -> None:
        self.usage += msgspec.convert(event["usage"], Usage) + Usage(calls=1)
        work = self.work.get((event["run"], event["call"]))
        if work is not None and event["retry"]:
            work.error, work.tail = event["error"], event["error"]
        else:
            self._call_ended(event)

    def _call_ended(self, event: Public) -> None:
        self.work.pop((event["run"], event["call"]), None)

    def _leave(self, run: str, agent: str) -> None:
        self.work = {key: work for key, work in self.work.items() if (key[0], work.agent) != (run, agent)}

    # Control

    def _turn_started(self, event: Public) -> None:
        self.visits[event["agent"]] += 1
        if not self.group:
            self.position = event["agent"]
            self.taken.update(Way(crew, "", event["agent"]) for crew in self._came_back)
            self._came_back = []

    def _decided(self, event: Public) -> None:
        waits_there = event["verb"] == Verb.AWAIT and not event["target"]
        if event["verb"] is not None:
            self.taken[Way(event["agent"], event["signal"], event["agent"] if waits_there else event["target"])] += 1
        joined = [each for each in event.get("candidates", ()) if each["outcome"] == "joined"]
        self.taken.update(Way(event["agent"], each["signal"], each["target"]) for each in joined)

    def _handed_over(self, event: Public) -> None:
        self.handoffs += 1

    def _group_started(self, event: Public) -> None:
        self.handoffs += 1
        self.visits[event["group"]] += 1
        self.group = self.position = event["group"]
        self.branches[self.group] = dict.fromkeys(event["members"], "working")

    def _branch_finished(self, event: Public) -> None:
        self.branches.setdefault(self.group, {})[event["agent"]] = event["status"]
        self._leave(event["run"], event["agent"])

    def _group_joined(self, event: Public) -> None:
        self.taken[Way(event["group"], "", event["next"])] += 1
        self.group = ""

    # Crews that are called

    def _child_started(self, event: Public) -> None:
        self.children[event["child"]] = event["crew"]
        self.visits[event["crew"]] += 1
        if event.get("message_id"):  # it was given a task, and control stays where it is
            self._entrusted.add(event["child"])
            return
        if self.group:
            return
        departure = event["call"].partition(".")[0]  # what one reply calls is one departure
        self.handoffs += departure != self._called
        self._called, self.position = departure, event["crew"]

    def _child_finished(self, event: Public) -> None:
        self._is_over(event["child"])
        self.children.pop(event["child"], None)
        if not self.group and event["child"] not in self._entrusted:
            self._came_back.append(event["crew"])

    def _below_finished(self, event: Public) -> None:
        self._is_over(event["run"])

    def _is_over(self, run: str) -> None:
        """Nobody works for it any more, or asks."""
        self.work = {key: work for key, work in self.work.items() if not _is_part(key[0], run)}
        self.questions = {
            token: question for token, question in self.questions.items() if not _is_part(run_of(token), run)
        }

    # The run itself

    def _goes_on(self, event: Public) -> None:
        self.status, self.reason = "running", ""
        if self._since_ms is None:
            self._since_ms = event["at"]

    def _asked(self, event: Public) -> None:
        agent = placed(_path(event), event["agent"])
        context = f"context: {' '.join(event['context'].split())}\n" if event.get("context") else ""
        expects = f"\n({event['expects']})" if event.get("expects") else ""
        self._messages[event["token"]] = event.get("message_id", "")
        text = f"{context}{event['question']}{expects}"
        self.questions[event["token"]] = Question(event["token"], agent, text, event.get("expects", ""))

    def _answered(self, event: Public) -> None:
        self.questions.pop(event["token"], None)

    def _expired(self, event: Public) -> None:
        """Its agent goes on without an answer."""
        open_ = {token: q for token, q in self.questions.items() if self._messages.get(token) != event["token"]}
        self.questions = open_

    def _paused(self, event: Public) -> None:
        self._stand(event, "paused")

    def _finished(self, event: Public) -> None:
        self._stand(event, event["status"])
        self.work.clear()
        self.questions.clear()
        self.children.clear()

    def _stand(self, event: Public, status: str) -> None:
        self.status, self.reason = status, event["reason"]
        self._spent_ms, self._since_ms = self.elapsed_ms(event["at"]), None


def _path(event: Public) -> tuple[str, ...]:
    return tuple(event.get("path", ()))


def _is_part(run: str, tree: str) -> bool:
    return run == tree or is_below(run, tree)


Follow = Callable[[Progress, Public], None]

_ANYBODYS: Mapping[str, Follow] = {
    "model.called": Progress._model_called,
    "model.delta": Progress._delta,
    "model.replied": Progress._model_replied,
    "model.failed": Progress._model_failed,
    "model.cancelled": Progress._call_ended,
    "tool.called": Progress._tool_called,
    "tool.returned": Progress._call_ended,
    "tool.lost": Progress._call_ended,
    "input.requested": Progress._asked,
    "input.given": Progress._answered,
    "run.finished": Progress._below_finished,
}
_OWN: Mapping[str, Follow] = {
    "turn.started": Progress._turn_started,
    "decision": Progress._decided,
    "handoff": Progress._handed_over,
    "group.started": Progress._group_started,
    "branch.finished": Progress._branch_finished,
    "group.joined": Progress._group_joined,
    "child.started": Progress._child_started,
    "child.finished": Progress._child_finished,
    "child.goes_on": Progress._goes_on,
    "run.started": Progress._goes_on,
    "run.resumed": Progress._goes_on,
    "input.expired": Progress._expired,
    "run.paused": Progress._paused,
    "run.finished": Progress._finished,
}
