"""Stages: the parts of one transition. Each stage is carried out at once and may lead to the next."""

import msgspec

from interlock.engine.events import ChildReturned
from interlock.engine.kinds import RunStatus, WorkStatus
from interlock.engine.routing.decision import Decision
from interlock.engine.state import Branch, Task, Turn


class StartTurn(msgspec.Struct, frozen=True, gc=False):
    """Start a turn of the agent as the current one."""

    agent: str


class AskModel(msgspec.Struct, frozen=True, gc=False):
    """Call the model of the turn's agent."""

    turn: Turn


class ConcludeTurn(msgspec.Struct, frozen=True, gc=False):
    """End the turn with this reply, and route by it."""

    turn: Turn
    reply: str


class ApplyDecision(msgspec.Struct, frozen=True, gc=False):
    """Carry out a routing decision. `by_member`: no turn has ended."""

    decision: Decision
    by_member: bool = False


class StartGroup(msgspec.Struct, frozen=True):
    """Start a group."""

    decision: Decision


class CallSubCrews(msgspec.Struct, frozen=True):
    """Start the sub-crews that a reply called."""

    decision: Decision


class CloseBranch(msgspec.Struct, frozen=True):
    branch: Branch
    status: WorkStatus
    error: str = ""


class JoinGroup(msgspec.Struct, frozen=True):
    """Join a group that is complete or out of time."""


class SuspendTurn(msgspec.Struct, frozen=True):
    """Suspend a turn that only waits for messages."""

    turn: Turn


class CloseTask(msgspec.Struct, frozen=True):
    """End a delegated task that has reported, or failed with this error."""

    task: Task
    error: str = ""


class ReportCrewResult(msgspec.Struct, frozen=True):
    """Report the result of a sub-crew that worked on a delegated task."""

    task: Task
    event: ChildReturned


class FailAdvisoryCall(msgspec.Struct, frozen=True):
    """End a selection or a check that failed."""

    turn: Turn
    error: str


class ReportVerdict(msgspec.Struct, frozen=True):
    """Hand over a checked report, or send it back."""

    task: Task
    ok: bool
    reason: str = ""


class StartSideTurns(msgspec.Struct, frozen=True):
    """Run the queued side turns before the run continues."""

    then: "StartTurn | ApplyDecision"


class EndSideTurn(msgspec.Struct, frozen=True):
    """End a side turn, with an error if it failed."""

    error: str = ""


class FinishRun(msgspec.Struct, frozen=True):
    status: RunStatus
    reason: str
    above: int = 0  # the owner of the limit: 0 is the run, 1 its caller, and so on
    detail: str = ""
    checked: bool = False  # the hooks of the host have seen the output


Stage = (
    StartTurn
    | AskModel
    | ConcludeTurn
    | ApplyDecision
    | StartGroup
    | CallSubCrews
    | CloseBranch
    | JoinGroup
    | StartSideTurns
    | EndSideTurn
    | SuspendTurn
    | CloseTask
    | ReportCrewResult
    | FailAdvisoryCall
    | ReportVerdict
    | StartSideTurns
    | EndSideTurn
    | FinishRun
)
