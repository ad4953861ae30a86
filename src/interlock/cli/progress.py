"""A run as somebody sees it who watches: a fold of its public events, and nothing else.

Rule 1: time is that of the events; what goes on now is measured against the clock of whoever asks.
Rule 2: what agents say is kept as it came, and made safe where it is shown.
Rule 3: whatever the length of a run, what is kept of it is bounded by its crew.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from interlock.cli.transcript import Line, lines_of
from interlock.engine.events import Usage
from interlock.engine.routing import Verb

# More than the tallest terminal shows; the whole transcript is printed when the view closes.
LINES_MAX = 500

# Of a reply that is coming in, enough for the widest terminal.
TAIL_CHARS_MAX = 500

Public = Mapping[str, Any]


class Work(msgspec.Struct, kw_only=True):
    """One call under way: of a model, of a tool, or the wait before the next try."""

    agent: str
    since_ms: int
    tool: str = ""
    attempt: int = 0
    tail: str = ""
    error: str = ""

    @property
    def doing(self) -> str:
        if self.error:
            return "waits to try again"
        if self.tool:
            return f"uses {self.tool}"
        again = f", try {self.attempt + 1}" if self.attempt else ""
        return ("replies" if self.tail else "thinks") + again


class Question(NamedTuple):
    """What a run waits for; the token is what answers it."""

    token: str
    agent: str
    text: str


class Way(NamedTuple):
    """An arrow of the crew that control has taken; an end is a target without a name."""

    source: str
    signal: str
    target: str


class Progress:
    """Who works, what was taken, what it cost. `watched_ms` is when somebody began to look."""

    def __init__(self, watched_ms: int = 0) -> None:
        self.watched_ms = watched_ms
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
        self.lines: deque[Line] = deque(maxlen=LINES_MAX)
        self._spent_ms = 0
        self._since_ms: int | None = None

    def take(self, event: Public) -> None:
        """One more event; those of crews that this one calls count, and move nothing here."""
        self.run = self.run or event["run"]
        own = event["run"] == self.run
        if own:
            self.seq = event.get("seq", self.seq)
        self.lines.extend(lines_of(dict(event)))
        follow = (_OWN.get(event["type"]) if own else None) or _ANYBODYS.get(event["type"])
        if follow is not None:
            follow(self, event)

    def elapsed_ms(self, now_ms: int) -> int:
        """How long the run has been at work: without its pauses, and without the time it lay there with no process."""
        if self._since_ms is None:
            return self._spent_ms
        begun = self._since_ms if now_ms < self.watched_ms else max(self._since_ms, self.watched_ms)
        return self._spent_ms + max(0, now_ms - begun)

    def at_work(self) -> dict[str, Work]:
        """Each working agent with its oldest call."""
        agents: dict[str, Work] = {}
        for work in self.work.values():
            agents.setdefault(work.agent, work)
        return agents

    # Calls

    def _model_called(self, event: Public) -> None:
        self._leave(event["run"], event["agent"])
        self._begin(event, Work(agent=event["agent"], since_ms=event["at"], attempt=event["attempt"]))

    def _tool_called(self, event: Public) -> None:
        self._begin(event, Work(agent=event["agent"], since_ms=event["at"], tool=event["name"]))

    def _begin(self, event: Public, work: Work) -> None:
        # A call that was under way before somebody looked, in a process that is gone, was not waited for since.
        work.since_ms = max(work.since_ms, self.watched_ms)
        self.work[event["run"], event["call"]] = work

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

    def _decided(self, event: Public) -> None:
        waits_there = event["verb"] == Verb.AWAIT and not event["target"]
        if event["verb"] is not None:
            self.taken[Way(event["agent"], event["signal"], event["agent"] if waits_there else event["target"])] += 1

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

    # The run itself

    def _goes_on(self, event: Public) -> None:
        self.status, self.reason = "running", ""
        self._since_ms = event["at"]
        self.questions.pop(event.get("token", ""), None)

    def _asked(self, event: Public) -> None:
        self.questions[event["token"]] = Question(event["token"], event["agent"], event["question"])

    def _paused(self, event: Public) -> None:
        self._stand(event, "paused")

    def _finished(self, event: Public) -> None:
        self._stand(event, event["status"])
        self.work.clear()
        self.questions.clear()

    def _stand(self, event: Public, status: str) -> None:
        self.status, self.reason = status, event["reason"]
        self._spent_ms, self._since_ms = self.elapsed_ms(event["at"]), None


Follow = Callable[[Progress, Public], None]

_ANYBODYS: Mapping[str, Follow] = {
    "model.called": Progress._model_called,
    "model.delta": Progress._delta,
    "model.replied": Progress._model_replied,
    "model.failed": Progress._model_failed,
    "tool.called": Progress._tool_called,
    "tool.returned": Progress._call_ended,
    "tool.lost": Progress._call_ended,
}
_OWN: Mapping[str, Follow] = {
    "turn.started": Progress._turn_started,
    "decision": Progress._decided,
    "handoff": Progress._handed_over,
    "group.started": Progress._group_started,
    "branch.finished": Progress._branch_finished,
    "group.joined": Progress._group_joined,
    "input.requested": Progress._asked,
    "run.started": Progress._goes_on,
    "run.resumed": Progress._goes_on,
    "run.paused": Progress._paused,
    "run.finished": Progress._finished,
}
