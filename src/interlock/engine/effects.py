"""What a run orders. Imperative, frozen; each has a key of its own, and the driver answers with an event.

Rule 1: effects carry references, not prompts: the driver builds those from the run.
Rule 2: a key is never used twice, also not by a run that was resumed, recovered or forked.
"""

from typing import Any

import msgspec

from interlock.engine.bounds import Given
from interlock.engine.events import Usage
from interlock.frames import Frame


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the store whether the crew's budgets have room for a call; made in the transaction of its transition."""

    key: str
    agent: str
    turn: int


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was reserved under this key is over. Without a usage nobody knows, and what was held counts."""

    key: str
    agent: str
    usage: Usage | None
    failed: bool = False
    provider: str = ""


class CallModel(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the agent's model, showing shared history up to `history` and what happened in the turn so far.

    `model` names the agent's backup, where that is the one to ask. `purpose` is what the call is for, if not the turn
    itself: `select` children for a task, `check` a report. A host's function may answer those. `number` counts all
    calls of the agent, `purpose_number` those for the same purpose.
    """

    key: str
    agent: str
    turn: int
    history: int
    attempt: int
    number: int
    model: str = ""
    purpose: str = ""
    purpose_number: int = 0


class RunTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that needs approval is run only if it is `approved`; else the answer is that it was held.

    So it is if a person has `edited` the arguments and it cannot take them. `idempotency_key` is that of
    the first try, which the tool is given on every try; empty on the first one.
    """

    key: str
    agent: str
    name: str
    arguments: str
    approved: bool = False
    edited: bool = False
    idempotency_key: str = ""


class StartChild(msgspec.Struct, frozen=True, kw_only=True):
    """Start a sub-crew under this id, or take the child up where it stands, and say what came of it.

    It is shown the `history` newest of the entries up to `until`, and gives back as many as `returns` says. `name` is
    that of the crew, with a number if others of it are under way.
    """

    key: str
    crew: str
    name: str
    child: str
    input: str
    frames: tuple[Frame, ...] = ()
    until: int
    history: int
    returns: int
    given: tuple[Given, ...]
    hops: int = 0


class StopChild(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a child that was started under this key, and say what it cost."""

    key: str
    child: str


class SetTimer(msgspec.Struct, frozen=True, kw_only=True):
    """Fire once after this much working time."""

    key: str
    duration_ms: int


class SetAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """Say when this much time has passed since the question was asked, whether or not anybody worked."""

    key: str
    token: str
    duration_ms: int


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Give up the effect with this key: its answer is no longer wanted."""

    key: str


class Tell(msgspec.Struct, frozen=True, kw_only=True):
    """Hand an external signal to the host."""

    key: str
    signal: str
    agent: str
    content: str
    requires_response: bool
    token: str = ""  # of the wait that an answer ends


class Announce(msgspec.Struct, frozen=True, kw_only=True):
    """Publish a broadcast, in the transaction of its transition. `told` are agents that the run tells by itself."""

    key: str
    id: str
    type: str
    agent: str
    data: Any
    hops: int = 0
    told: tuple[str, ...] = ()


class TakeMail(msgspec.Struct, frozen=True, kw_only=True):
    """Take what is in the agent's inbox, in the transaction of its transition; answered by an event."""

    key: str
    agent: str


class MailRead(msgspec.Struct, frozen=True, kw_only=True):
    """What was taken under this key is in the journal from now on; or, put back, nobody will see it here."""

    key: str
    put_back: bool = False


class HandBack(msgspec.Struct, frozen=True, kw_only=True):
    """The run ends before the agent could act on a broadcast: it is for whoever comes next."""

    key: str
    agent: str
    id: str


Effect = (
    Reserve
    | Settle
    | CallModel
    | RunTool
    | StartChild
    | StopChild
    | SetTimer
    | SetAlarm
    | Cancel
    | Tell
    | Announce
    | TakeMail
    | MailRead
    | HandBack
)
