"""Tools of a simulated process: real ones, or stand-ins, behind a connection that may be slow or broken."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from interlock.adapters.tools.mcp_tools import PREFIX, name_for_models, server_of
from interlock.adapters.tools.python_tools import PythonTool, PythonToolbox
from interlock.crew.definition import CrewDefinition
from interlock.engine.builtin_tools import BUILTIN_TOOLS
from interlock.errors import ToolFailed
from interlock.ports import NO_CREW, CrewRef, ToolCall, ToolSchema
from interlock.testing.simulation.seeds import chance_of
from interlock.testing.simulation.simulated_ports import NEVER_MS, ORDINARY_MS, SLOW_MS, Gate


class SimulatedToolbox:
    """The host's tools, called on the event loop, behind a connection that may be slow or broken."""

    def __init__(self, gate: Gate, tools: PythonToolbox) -> None:
        self._gate, self._tools = gate, tools

    def schemas(self, names: Sequence[str], crew: CrewRef = NO_CREW) -> tuple[ToolSchema, ...]:
        return self._tools.schemas(tuple(map(_name_for_models, names)))

    def is_idempotent(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return self._tools.is_idempotent(name)

    def needs_approval(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return self._tools.needs_approval(name)

    def has_approval_function(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return self._tools.has_approval_function(name)

    async def call_approval_function(self, call: ToolCall) -> Any:
        gate, injector, name, key = self._gate, self._gate.injector, call.name, call.key
        gate.boundary("approval function")
        gate.checker.on_decision_started(gate.number, key)
        try:
            await gate.clock.sleep(injector.chance.randrange(ORDINARY_MS))
            if injector.should_inject(injector.faults.hanging):
                gate.checker.record_fault(f"the approval function of {name} hangs in call {key}")
                await gate.clock.sleep(NEVER_MS)
            if injector.should_inject(injector.faults.failing):
                gate.checker.record_fault(f"the approval function of {name} fails in call {key}")
                raise ToolFailed("out of order")
            return await self._tools.call_approval_function(call)
        finally:
            gate.checker.on_call_ended(gate.number, key)

    async def run(self, call: ToolCall) -> str:
        gate, injector, name, key = self._gate, self._gate.injector, call.name, call.key
        gate.boundary("tool")
        if gate.is_fenced:
            gate.checker.report_violation("no effect starts without a lease", f"tool {name} runs in call {key}")
        repeatable = self._tools.is_idempotent(name)
        gate.watch.on_call_started(gate.number, "tool", key)
        gate.checker.on_call_started(gate.number, "tool", key, repeatable=repeatable)
        try:
            await gate.clock.sleep(injector.chance.randrange(ORDINARY_MS))
            if injector.should_inject(injector.faults.slow):
                gate.checker.record_fault(f"tool {name} is slow in call {key}")
                await gate.clock.sleep(injector.chance.randrange(SLOW_MS * 2))
            if injector.should_inject(injector.faults.failing):
                gate.checker.record_fault(f"tool {name} fails in call {key}")
                raise ToolFailed("out of order")
            return await self._tools.run(call)
        finally:
            gate.checker.on_call_ended(gate.number, key)


def toolbox_for(
    crew: CrewDefinition, tools: Iterable[PythonTool | Callable[..., Any]], seed: int | str
) -> PythonToolbox:
    """The given tools without threads, and a stand-in for every other one that the crew names."""
    given = [_inline(entry if isinstance(entry, PythonTool) else PythonTool(entry)) for entry in tools]
    names = {declared.name for declared in given}
    agents = [agent for each in crew.whole_tree() for agent in each.agents]
    named = dict.fromkeys(_name_for_models(name) for agent in agents for name in agent.tools)
    missing = [name for name in named if name not in names and name not in BUILTIN_TOOLS]
    return PythonToolbox([*given, *(_stand_in(name, seed) for name in missing)])


def _name_for_models(name: str) -> str:
    """The name of a tool for models; one tool stands in for a whole MCP server."""
    if not name.startswith(PREFIX):
        return name
    return name_for_models(server_of(name), name.partition("/")[2] or "tool").replace("-", "_")


def _inline(declared: PythonTool) -> PythonTool:
    needs_approval = declared.needs_approval
    if callable(needs_approval):
        needs_approval = _inline_function(needs_approval)
    call_inline = _inline_function(declared.function)
    return replace(declared, function=call_inline, needs_approval=needs_approval, known_as=declared.name)


def _inline_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as an async one, which needs no thread."""
    if inspect.iscoroutinefunction(function):
        return function

    @functools.wraps(function)
    async def call_inline(*positional: Any, **named: Any) -> Any:
        return function(*positional, **named)

    return call_inline


def _stand_in(name: str, seed: int | str) -> PythonTool:
    chance = chance_of(seed, name)

    async def stand_in(text: str = "") -> str:
        return chance.choice(["done", "[END]", f"{text} [STOP] [NEXT]", "", "error"])

    stand_in.__name__ = name
    stand_in.__doc__ = "Stands in for a tool of this name."
    return PythonTool(stand_in, idempotent=chance.random() < 0.5)
