"""A reply that should carry a value: the value if it is valid, or what to tell the model.

The driver validates, because that needs a library; its verdict is part of the event, so a replay validates nothing.
"""

from typing import Any

import msgspec

from interlock.crew.outputs.asked import AskedOutput
from interlock.engine.events import Nudged
from interlock.engine.kinds import RunStatus, TurnKind, WorkStatus
from interlock.engine.outputs.reply_value import ReplyValue, read_value
from interlock.engine.prompt.output_words import output_nudge
from interlock.engine.prompt.phrases import EMITTED
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.stages import AskModel, CloseBranch, FinishRun, Stage
from interlock.engine.state import Branch, RunState, Turn, TurnMessage
from interlock.engine.transition import Transition
from interlock.engine.turns.replies import answer_emits

INVALID_OUTPUT = "invalid_output"

# How often a bad value of one turn is told to the model.
REPAIRS_MAX = 2

# A reply is read, but the event has no verdict: the process that drove the run had no validator.
UNCHECKED = "it was not checked"


class CheckedReply(msgspec.Struct, frozen=True):
    """The reply of a turn that is asked for a value. `beside` is the text whose marks steer."""

    asked: AskedOutput
    read: ReplyValue
    fault: str
    fault_at_end: str = ""

    def fault_in(self, *, ends: bool) -> str:
        """Why the reply may not count: the value that it needs is not valid, or it is a broken one."""
        if self.fault and (self.asked.always or ends or (self.read.is_attempt and self.read.fault)):
            return self.fault
        return self.fault_at_end if ends else ""

    @property
    def beside(self) -> str:
        return self.read.beside

    @property
    def value(self) -> Any:
        """The valid value, or unset."""
        return msgspec.UNSET if self.fault else self.read.value


def output_asked_of(table: RoutingTable, state: RunState, turn: Turn) -> AskedOutput | None:
    """What the replies of a turn are asked for; nothing on tasks, side turns and advisory calls."""
    if turn.kind is not TurnKind.FLOOR or state.aside is not None:
        return None
    return table.outputs.get(turn.agent)


def check_reply(t: Transition, turn: Turn, reply: str) -> CheckedReply | None:
    """The reply, read and checked; None if no value is asked for."""
    asked = output_asked_of(t.table, t.state, turn)
    if asked is None:
        return None
    read = read_value(reply, t.table.is_known_mark)
    if read.fault:
        return CheckedReply(asked, read, read.fault)
    if turn.verdict is None:
        return CheckedReply(asked, read, UNCHECKED)
    return CheckedReply(asked, read, turn.verdict.fault, turn.verdict.at_end)


def steering_text(t: Transition, turn: Turn, reply: str) -> str:
    """The part of a reply whose marks count: all of it, or what is beside its value."""
    checked = check_reply(t, turn, reply)
    return reply if checked is None else checked.beside


def repair_or_fail(t: Transition, turn: Turn, reply: str, fault: str, branch: Branch | None) -> Stage:
    """Tells the model what is wrong; after that it fails the branch, or the run."""
    if turn.repairs < REPAIRS_MAX:
        return _ask_again(t, turn, reply, fault)
    if branch is not None:
        branch.reply = reply
        return CloseBranch(branch, WorkStatus.FAILED, INVALID_OUTPUT)
    t.add_history("assistant", turn.agent, reply, turn.number)
    t.state.output = reply
    return FinishRun(RunStatus.FAILED, INVALID_OUTPUT, detail=f"the output of {turn.agent}: {fault}")


def _ask_again(t: Transition, turn: Turn, reply: str, fault: str) -> Stage:
    turn.repairs += 1
    t.record(Nudged(agent=turn.agent, because=INVALID_OUTPUT, fault=fault))
    answer_emits(turn, reply, turn.emits, EMITTED)
    turn.said.append(TurnMessage(role="user", text=output_nudge(t.crew, fault)))
    return AskModel(turn)
