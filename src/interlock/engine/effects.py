"""Effects: what a run orders the driver to do. Frozen; each has its own key, and the driver answers with an event.

Rule 1: effects carry references, not prompts: the driver builds those from the run.
Rule 2: a key is never used twice, not even by a run that was resumed, recovered or forked.
"""

from typing import Any

import msgspec

from interlock.engine.budgets.inherited_limits import Allowance
from interlock.engine.events import Usage
from interlock.messages.frames import Frame


class Reserve(msgspec.Struct, frozen=True, kw_only=True):
    """Reserve room for a call in the crew's budgets, in the transaction of the transition."""

    key: str
    agent: str
    turn: int


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """Settle the reservation of a call that is over. Without a usage, the reserved estimate counts."""

    key: str
    agent: str
    usage: Usage | None
    failed: bool = False
    provider: str = ""


class ReserveAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Reserve the room of a call again, because a lost try keeps the first. It is never refused, and not answered."""

    key: str
    agent: str
    tokens: int
    cost_micros: int


class CallModel(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Call the agent's model with shared history up to `history` and the turn so far.

    `model` names the agent's backup, if that is to be called. `purpose` is empty for the turn itself, else `select`
    (children for a task) or `check` (a report); a function of the host may answer those. `number` counts all calls of
    the agent, `purpose_number` those for the same purpose.
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
    hooked: bool = False  # the hooks of the host have decided about this call


class RunTool(msgspec.Struct, frozen=True, kw_only=True):
    """Run a tool. One that is not `approved` and that the host decides about is answered by `tool.held` or
    `tool.decided`.

    The same holds if a person `edited` the arguments and they do not fit. `idempotency_key` is the key of the first
    try, which the tool gets on every try; it is empty on the first one.
    """

    key: str
    agent: str
    name: str
    arguments: str
    approved: bool = False
    edited: bool = False
    idempotency_key: str = ""
    hooked: bool = False  # the hooks of the host have decided about these arguments


class CheckOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Ask the hooks of the host about the output of a run that is about to end like this."""

    key: str
    status: str
    reason: str


class StoreApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Store a person's approval of later calls, in the transaction of the transition."""

    key: str
    id: str
    tool: str
    pattern: str
    for_run: bool
    by: str


class StartChild(msgspec.Struct, frozen=True, kw_only=True):
    """Start a sub-crew under this id, or continue it if it exists, and report its result.

    It sees the newest `history` entries up to `until`, and returns `returns` of its own. `name` is the crew's name,
    with a number if other runs of it are in progress.
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
    given: tuple[Allowance, ...]
    hops: int = 0


class StopChild(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a child that was started under this key, and report its cost."""

    key: str
    child: str


class SetTimer(msgspec.Struct, frozen=True, kw_only=True):
    """Fire once after this much working time."""

    key: str
    duration_ms: int


class SetAlarm(msgspec.Struct, frozen=True, kw_only=True):
    """Report when this much wall-clock time has passed since the question was asked."""

    key: str
    token: str
    duration_ms: int


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel the effect with this key: its answer is no longer needed."""

    key: str


class SendExternalSignal(msgspec.Struct, frozen=True, kw_only=True):
    """Hand an external signal to the host."""

    key: str
    signal: str
    agent: str
    content: str
    requires_response: bool
    token: str = ""  # of the wait that an answer ends


class PublishBroadcast(msgspec.Struct, frozen=True, kw_only=True):
    """Publish a broadcast in the transaction of the transition. `told` are agents that the run itself notifies."""

    key: str
    id: str
    type: str
    agent: str
    data: Any
    hops: int = 0
    told: tuple[str, ...] = ()


class ClaimInbox(msgspec.Struct, frozen=True, kw_only=True):
    """Claim the contents of the agent's inbox in the transaction of the transition; answered by an event."""

    key: str
    agent: str


class AckInbox(msgspec.Struct, frozen=True, kw_only=True):
    """Acknowledge what was claimed under this key, or put it back if the run cannot show it."""

    key: str
    put_back: bool = False


class HandBackBroadcast(msgspec.Struct, frozen=True, kw_only=True):
    """Return a broadcast that the run ended without acting on; another run may receive it."""

    key: str
    agent: str
    id: str


Effect = (
    Reserve
    | Settle
    | ReserveAgain
    | CallModel
    | RunTool
    | CheckOutput
    | StoreApproval
    | StartChild
    | StopChild
    | SetTimer
    | SetAlarm
    | Cancel
    | SendExternalSignal
    | PublishBroadcast
    | ClaimInbox
    | AckInbox
    | HandBackBroadcast
)
