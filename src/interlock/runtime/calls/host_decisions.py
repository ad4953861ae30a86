"""Functions of the host in place of a model call: which agents a task needs, and if a report completes it.

Rule 1: they have the time limit of a tool. A synchronous function runs on the event loop and blocks it.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from interlock.engine.delegation.agent_states import children_of
from interlock.engine.effects import CallModel
from interlock.engine.events import ModelReplied
from interlock.engine.kinds import TurnKind
from interlock.engine.state import turn_of, turns_by
from interlock.errors import ModelRefused
from interlock.messages.validation import ValidationResult
from interlock.runtime.live_run import LiveRun

# Gets the task and the ids of the children; returns the ids that are needed. May be async.
SelectChildren = Callable[[str, Sequence[str]], Any]
# Gets the task and the report; returns a bool, a reason why it is not done (empty if it is), or a
# ValidationResult. May be async.
CheckReport = Callable[[str, str], Any]


class HostDecisions:
    """The decisions of the host. It is asked only where the crew says `model`."""

    def __init__(self, select: SelectChildren | None = None, check: CheckReport | None = None) -> None:
        self._select, self._check = select, check

    def has(self, purpose: str) -> bool:
        return (self._select if purpose == TurnKind.SELECT else self._check) is not None

    async def reply(self, live: LiveRun, effect: CallModel) -> ModelReplied:
        """The decision in the form of a model reply; an exception of the function is a failed call."""
        seconds = live.crew.settings.tool_execution_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                said = await (
                    self._select_children(live, effect)
                    if effect.purpose == TurnKind.SELECT
                    else self._check_report(live, effect)
                )
        except TimeoutError as error:
            raise ModelRefused(f"the host's function took longer than {seconds:g} s") from error
        text = msgspec.json.encode(said, order="deterministic").decode()
        return ModelReplied(call=effect.key, agent=effect.agent, text=text, purpose=effect.purpose)

    async def _select_children(self, live: LiveRun, effect: CallModel) -> Any:
        assert self._select is not None, "asked only where there is one"
        task, children = _task_text(live, effect), children_of(live.crew, effect.agent)
        named = await _await_if_needed(self._select(task, children))
        if not isinstance(named, Sequence) or isinstance(named, str):
            raise ModelRefused(f"the host's function to select children gave {named!r}, and no list of ids")
        return list(named)

    async def _check_report(self, live: LiveRun, effect: CallModel) -> Any:
        assert self._check is not None, "asked only where there is one"
        turn = _advisory_turn(live, effect)
        task = live.run.state.tasks[turn.about]
        assert task.report is not None, "only reports are checked"
        found = await _await_if_needed(self._check(task.assigned, task.report.result))
        if isinstance(found, ValidationResult):
            return {"completed": found.completed, "reason": found.reason}
        if isinstance(found, str):
            return {"completed": not found, "reason": found}
        if isinstance(found, bool):
            return {"completed": found, "reason": "the host's function says so"}
        if not isinstance(found, Mapping):
            raise ModelRefused(f"the host's function to check reports gave {found!r}, and no bool, text or verdict")
        return found


# A host that leaves all decisions to the models.
NO_HOST_DECISIONS = HostDecisions()


def _advisory_turn(live: LiveRun, effect: CallModel) -> Any:
    return next(turn for turn in turns_by(live.run.state, effect.agent) if turn.number == effect.turn)


def _task_text(live: LiveRun, effect: CallModel) -> str:
    """The task of the turn that selects children."""
    state = live.run.state
    task, turn = state.tasks.get(effect.agent), turn_of(state, effect.agent)
    assert turn is not None, "an advisory call ends with its turn"
    return task.assigned if task is not None else state.history[turn.history - 1].text


async def _await_if_needed(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
