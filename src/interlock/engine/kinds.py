"""The closed sets of words in a run's state: statuses, kinds of turns and waits, purposes of timers.

Rule 1: journals and snapshots hold the same words as plain strings. Only `WaitKind.of_reason` and
`TimerPurpose.of_key` parse those that have a name after a colon.
"""

from enum import StrEnum
from typing import NamedTuple


class RunStatus(StrEnum):
    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    CANCELLED = "cancelled"


# Every step asks for these; in Python 3.11 a look into the class of an enum costs as much as ten comparisons.
RUNNING, PAUSED = RunStatus.RUNNING, RunStatus.PAUSED


class WorkStatus(StrEnum):
    """The status of a child run, or of a member's branch of a group."""

    WORKING = "working"
    WAITING = "waiting"  # for a person; children only
    OK = "ok"
    FAILED = "failed"
    LATE = "late"  # branches only
    CANCELLED = "cancelled"


OPEN = (WorkStatus.WORKING, WorkStatus.WAITING)


class TurnKind(StrEnum):
    FLOOR = ""  # the run's own turn, a side turn, or a member's
    TASK = "task"
    SELECT = "select"
    CHECK = "check"


# The tool by which an agent asks a person.
ASK_USER = "ask_user"


# Calls of an agent's model beside the agent's own work.
ADVISORY_KINDS = (TurnKind.SELECT, TurnKind.CHECK)


class WaitKind(StrEnum):
    HELD = "held"
    EXTERNAL = "external"
    SIGNAL = "signal"
    NO_SIGNAL = "wait_for_signal"
    APPROVAL = "approval"
    QUESTION = "question"
    UNKNOWN_OUTCOME = "tool_unknown_outcome"
    HOOK = "hook"  # a hook of the host asked a person

    def reason(self, signal: str) -> str:
        """The reason of a wait for this signal, as the journal has it."""
        return f"{self}:{signal}"

    @classmethod
    def of_reason(cls, reason: str) -> "WaitKind":
        return cls(reason.partition(":")[0])


class HookPoint(StrEnum):
    """The places where hooks of the host may decide; each is the name of a hook's method."""

    ON_INPUT = "on_input"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    ON_OUTPUT = "on_output"


class TimerKind(StrEnum):
    RUN = "run"
    WARNING = "warning"
    GROUP = "group"
    RETRY = "retry"
    TOOLS = "tools"
    BUDGET = "budget"
    ACK = "ack"  # until a message is acknowledged
    ANSWER = "answer"  # until a message is answered

    def of(self, owner: str | int) -> "TimerPurpose":
        """The purpose for a turn, by its number, or for a message, by its id."""
        return TimerPurpose(self, str(owner))


class TimerPurpose(NamedTuple):
    kind: TimerKind
    owner: str = ""

    @property
    def key(self) -> str:
        """The purpose as the state names it."""
        return f"{self.kind}:{self.owner}" if self.owner else str(self.kind)

    @classmethod
    def of_key(cls, key: str) -> "TimerPurpose":
        kind, _, owner = key.partition(":")
        return cls(TimerKind(kind), owner)
