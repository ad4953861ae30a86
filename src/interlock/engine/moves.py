"""What follows within one transition. Each move is carried out, and may lead to one more; none waits."""

import msgspec

from interlock.engine.events import ChildReturned
from interlock.engine.routing import Decision
from interlock.engine.state import Branch, Task, Turn


class Begin(msgspec.Struct, frozen=True):
    """Give the agent the floor."""

    agent: str


class Ask(msgspec.Struct, frozen=True):
    """Call the model of the turn's agent once more."""

    turn: Turn


class Conclude(msgspec.Struct, frozen=True):
    """The turn is over with this reply; let it steer."""

    turn: Turn
    reply: str


class Follow(msgspec.Struct, frozen=True):
    """Do what was decided."""

    decision: Decision
    by_member: bool = False


class Depart(msgspec.Struct, frozen=True):
    """Leave for an agent or a group; this is what max_handoffs counts. What members decide is no end of a turn."""

    decision: Decision
    by_member: bool = False


class Fork(msgspec.Struct, frozen=True):
    """Start a group."""

    decision: Decision


class Call(msgspec.Struct, frozen=True):
    """Start the sub-crews that a reply called."""

    decision: Decision


class CloseBranch(msgspec.Struct, frozen=True):
    branch: Branch
    status: str
    error: str = ""


class Join(msgspec.Struct, frozen=True):
    """The group is complete, or out of time."""


class Rest(msgspec.Struct, frozen=True):
    """The turn has nothing else to do than to wait for mail, if there is any to wait for."""

    turn: Turn


class CloseTask(msgspec.Struct, frozen=True):
    """A delegated task is over: reported, or failed with this error."""

    task: Task
    error: str = ""


class CrewReturned(msgspec.Struct, frozen=True):
    """A sub-crew has come back from a delegated task; how, the event says."""

    task: Task
    event: ChildReturned


class CloseErrand(msgspec.Struct, frozen=True):
    """Nothing came of a selection or a check."""

    turn: Turn
    error: str


class Judged(msgspec.Struct, frozen=True):
    """A report was checked: it is handed over, or sent back."""

    task: Task
    ok: bool
    reason: str = ""


class StepAside(msgspec.Struct, frozen=True):
    """Let those who heard a broadcast act on it, before the run goes on."""

    then: "Begin | Follow"


class EndAside(msgspec.Struct, frozen=True):
    """The side turn is over; with an error, if it could not come to an end."""

    error: str = ""


class Finish(msgspec.Struct, frozen=True):
    status: str
    reason: str
    above: int = 0  # whose bound it is: the run's own, or that of a caller so many levels up
    detail: str = ""


Move = (
    Begin
    | Ask
    | Conclude
    | Follow
    | Depart
    | Fork
    | Call
    | CloseBranch
    | Join
    | StepAside
    | EndAside
    | Rest
    | CloseTask
    | CrewReturned
    | CloseErrand
    | Judged
    | StepAside
    | EndAside
    | Finish
)
