"""A host's own functions, in place of a model's word: whom a task needs, and whether a report completes it.

Rule 1: they have as long as a tool has. One that is not async must be quick: everything else waits for it.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from interlock.engine.effects import CallModel
from interlock.engine.events import ModelReplied
from interlock.engine.standing import children_of
from interlock.engine.state import turn_of, turns_by
from interlock.engine.transition import SELECT
from interlock.errors import ModelRefused
from interlock.messages.validation import ValidationResult
from interlock.runtime.live import LiveRun

# Gets the task and the ids of the children; gives the ids of those that are needed. May be async.
SelectChildren = Callable[[str, Sequence[str]], Any]
# Gets the task and the report; gives whether it is done: a bool, a reason why not (empty if it is), or a
# ValidationResult. May be async.
CheckReport = Callable[[str, str], Any]


class Judges:
    """What the host decides itself. It is asked only where the crew says `model`."""

    def __init__(self, select: SelectChildren | None = None, check: CheckReport | None = None) -> None:
        self._select, self._check = select, check

    def has(self, purpose: str) -> bool:
        return (self._select if purpose == SELECT else self._check) is not None

    async def reply(self, live: LiveRun, effect: CallModel) -> ModelReplied:
        """As a model would have said it; whatever the function raises is a call that failed."""
        seconds = live.crew.settings.tool_execution_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                said = await (self._selected(live, effect) if effect.purpose == SELECT else self._checked(live, effect))
        except TimeoutError as error:
            raise ModelRefused(f"the host's function took longer than {seconds:g} s") from error
        text = msgspec.json.encode(said, order="deterministic").decode()
        return ModelReplied(call=effect.key, agent=effect.agent, text=text, purpose=effect.purpose)

    async def _selected(self, live: LiveRun, effect: CallModel) -> Any:
        assert self._select is not None, "asked only where there is one"
        task, children = _task(live, effect), children_of(live.crew, effect.agent)
        named = await _awaited(self._select(task, children))
        if not isinstance(named, Sequence) or isinstance(named, str):
            raise ModelRefused(f"the host's function to select children gave {named!r}, and no list of ids")
        return list(named)

    async def _checked(self, live: LiveRun, effect: CallModel) -> Any:
        assert self._check is not None, "asked only where there is one"
        errand = _errand(live, effect)
        task = live.run.state.tasks[errand.about]
        assert task.report is not None, "only reports are checked"
        found = await _awaited(self._check(task.assigned, task.report.result))
        if isinstance(found, ValidationResult):
            return {"completed": found.completed, "reason": found.reason}
        if isinstance(found, str):
            return {"completed": not found, "reason": found}
        if isinstance(found, bool):
            return {"completed": found, "reason": "the host's function says so"}
        if not isinstance(found, Mapping):
            raise ModelRefused(f"the host's function to check reports gave {found!r}, and no bool, text or verdict")
        return found


# A host that leaves it to the models.
NO_JUDGES = Judges()


def _errand(live: LiveRun, effect: CallModel) -> Any:
    return next(turn for turn in turns_by(live.run.state, effect.agent) if turn.number == effect.turn)


def _task(live: LiveRun, effect: CallModel) -> str:
    """What the turn that selects has to do."""
    state = live.run.state
    task, turn = state.tasks.get(effect.agent), turn_of(state, effect.agent)
    assert turn is not None, "an errand ends with the turn that it is for"
    return task.assigned if task is not None else state.history[turn.history - 1].text


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
