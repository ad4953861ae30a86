"""The hooks of the host in a simulated process: called on the event loop, slow, raising and hanging by the seed."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from interlock.engine.kinds import HookPoint
from interlock.ports import ModelRequest
from interlock.ports.hooks import Hook, HookCall, RunOutput
from interlock.testing.simulation.decision_watch import DecisionWatch
from interlock.testing.simulation.simulated_ports import NEVER_MS, ORDINARY_MS, Gate

# Of the faults of a hook, the part that hangs; the others raise.
HANGING_PART = 0.3


class SimulatedHook:
    """One hook as a process calls it, with the methods that the hook has."""

    def __init__(self, gate: Gate, watch: DecisionWatch, hook: Hook, last_at: Sequence[HookPoint]) -> None:
        self.name = hook.name
        self.keeps_original: bool = getattr(hook, "keeps_original", True)
        self._gate, self._watch, self._last_at = gate, watch, last_at
        for point in HookPoint:
            if hasattr(hook, point):
                setattr(self, point, self._in_simulation(point, getattr(hook, point)))

    def _in_simulation(self, point: HookPoint, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*arguments: Any) -> Any:
            gate, key = self._gate, self._key_of(arguments[0])
            gate.boundary("hook")
            self._watch.on_asked(gate.number, point, key)
            gate.checker.on_decision_started(gate.number, key)
            try:
                await self._inject_trouble(point, key)
                answer = method(*arguments)
                answer = await answer if inspect.isawaitable(answer) else answer
                gate.boundary("after hook")
            finally:
                gate.checker.on_call_ended(gate.number, key)
            if answer is None and point in self._last_at:
                self._watch.on_passed(gate.number, point, key)
            return answer

        return call

    async def _inject_trouble(self, point: HookPoint, key: str) -> None:
        gate, injector = self._gate, self._gate.injector
        await gate.clock.sleep(injector.chance.randrange(ORDINARY_MS))
        if not injector.should_inject(injector.faults.hook_failing):
            return
        if injector.chance.random() < HANGING_PART:
            gate.checker.record_fault(f"{point} of hook {self.name} hangs in {key}")
            await gate.clock.sleep(NEVER_MS)
        gate.checker.record_fault(f"{point} of hook {self.name} raises in {key}")
        raise OSError("out of order")

    def _key_of(self, about: object) -> str:
        """The key of the call that a hook is asked about; input has none."""
        match about:
            case HookCall() | ModelRequest():
                return about.key
            case RunOutput():
                ending = self._gate.checker.runs[about.run].shadow.state.ending
                return f"{about.run}:{ending.checking if ending is not None else ''}"
            case _:
                return ""


def hooks_of_process(gate: Gate, watch: DecisionWatch, hooks: Sequence[Hook]) -> list[SimulatedHook]:
    last = {point: max((n for n, hook in enumerate(hooks) if hasattr(hook, point)), default=-1) for point in HookPoint}
    return [
        SimulatedHook(gate, watch, hook, [point for point in HookPoint if last[point] == number])
        for number, hook in enumerate(hooks)
    ]
