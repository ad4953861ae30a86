"""Events of a run as a whole: how it started, what it waits for, what limits it, how it ended."""

from typing import Any

import msgspec

from interlock.engine.events import Usage
from interlock.events.envelope import StoredEvent


class RunStartedEvent(StoredEvent, frozen=True, kw_only=True, tag="run.started"):
    """The run started. `continues` is the run whose history it continues, `by` the person who started it.

    `user` is the user for whom it works, `needs` what only its host can give it again.

    `heard` is the broadcast and `schedule` the schedule that started it, if one did.
    """

    crew: str
    input: str
    rules: int
    crew_sha: str
    continues: str
    history: tuple[dict[str, Any], ...]
    path: tuple[str, ...]
    way: tuple[str, ...]
    schedule: str
    frames: tuple[dict[str, Any], ...]
    calls: dict[str, int] = msgspec.field(default_factory=dict)
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    bounds: dict[str, Any] = msgspec.field(default_factory=dict)
    entry: str = ""
    heard: dict[str, Any] | None = None
    delivery: int = 0
    hops: int = 0
    by: str = ""
    messages: tuple[dict[str, Any], ...] = ()
    user: str = ""
    needs: dict[str, Any] = msgspec.field(default_factory=dict)
    checks_output: bool = False
    verdict: dict[str, Any] | None = None


class RunPausedEvent(StoredEvent, frozen=True, kw_only=True, tag="run.paused"):
    """Nothing in the run can continue; `token` is its oldest open wait."""

    agent: str
    token: str
    reason: str


class RunResumedEvent(StoredEvent, frozen=True, kw_only=True, tag="run.resumed"):
    """A wait was answered, or a parked run continued; `by` is the person.

    `may_hold`: that person may approve later calls of a tool too.
    """

    token: str
    input: str
    by: str = ""
    may_hold: bool = False


class RunFinishedEvent(StoredEvent, frozen=True, kw_only=True, tag="run.finished"):
    """The run is over. `output` is the last reply, `text` the same without its marks.

    `value` is the typed result of a run that completed with one.

    `above` is the owner of the limit that stopped it: 0 is the run, 1 its caller, and so on.
    """

    status: str
    reason: str
    agent: str
    output: str
    text: str
    usage: Usage
    above: int
    detail: str
    value: Any = msgspec.UNSET


class InputRequestedEvent(StoredEvent, frozen=True, kw_only=True, tag="input.requested"):
    """An agent or the run asks a person; `expects` describes a valid answer, `context` why it is asked."""

    agent: str
    question: str
    token: str
    message_id: str
    expects: str
    deadline_ms: int
    context: str
    again_of: str


class InputGivenEvent(StoredEvent, frozen=True, kw_only=True, tag="input.given"):
    """A person answered the question of this token; `by` is the person."""

    token: str
    by: str = ""


class InputExpiredEvent(StoredEvent, frozen=True, kw_only=True, tag="input.expired"):
    """The question of this token was not answered before its deadline."""

    token: str


class LimitReachedEvent(StoredEvent, frozen=True, kw_only=True, tag="limit.reached"):
    """A limit was reached: its size is `most`, the amount used `used`, and the call needed `call`."""

    limit: str
    message: str
    most: int
    used: int
    call: int


class BudgetReservedEvent(StoredEvent, frozen=True, kw_only=True, tag="budget.reserved"):
    """A budget gave room for a model call, or the limit named in `refused` did not."""

    call: str
    agent: str
    tokens: int
    cost_micros: int
    refused: str
    what: str
    then: str
    wait_ms: int
    alerts: tuple[str, ...]
    above: int
    most: int
    used: int
    exceeded: tuple[str, ...]


class WarningEvent(StoredEvent, frozen=True, kw_only=True, tag="warning"):
    """Something to look at that does not stop the run."""

    code: str
    message: str


class CancelRequestedEvent(StoredEvent, frozen=True, kw_only=True, tag="cancel.requested"):
    """A person, the host or the calling run cancels the run."""

    by: str


class ParkRequestedEvent(StoredEvent, frozen=True, kw_only=True, tag="park.requested"):
    """The process that drives the run was stopped; with a `hindrance`, it cannot drive the run."""

    by: str
    hindrance: str


class DriveFailedEvent(StoredEvent, frozen=True, kw_only=True, tag="drive.failed"):
    """The process failed repeatedly to drive the run, so the run ends."""

    error: str


class TimerFiredEvent(StoredEvent, frozen=True, kw_only=True, tag="timer.fired"):
    """A time limit or a waiting time of the run has passed."""

    timer: str


class StaleEvent(StoredEvent, frozen=True, kw_only=True, tag="stale"):
    """The event before it is about something already closed; it has no effect."""

    about: str
