"""Real runs of one agent that calls tools, in memory."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from interlock.adapters.process_deltas import ProcessDeltas
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.crew.definition import AgentDefinition, CrewDefinition, RouteDefinition
from interlock.engine.state import RunState
from interlock.ports import Toolbox
from interlock.runtime.replay import replay_run
from interlock.runtime.runner import Runner
from interlock.signals.definition import SignalBehavior
from interlock.testing import Answer, ManualClock, MemoryStore, ScriptedModel, ToolCall
from interlock.testing.memory_owners import MemoryLeaders

Calls = list[tuple[str, Mapping[str, Any]]]


class Played(NamedTuple):
    """A run that is over: what the model was told, the events, and the state that its journal gives."""

    told: list[str]
    events: list[dict[str, Any]]
    state: RunState
    model: ScriptedModel


def crew_with(*tools: str) -> CrewDefinition:
    return CrewDefinition(
        version="2.0",
        name="desk",
        entry_point="clerk",
        agents=(AgentDefinition(id="clerk", name="clerk", tools=tools),),
        routes={"clerk": (RouteDefinition(signal="[END]", behavior=SignalBehavior.TERMINATE, priority=100),)},
    )


def runner_with(toolbox: Toolbox, model: ScriptedModel, store: MemoryStore) -> Runner:
    return Runner(
        journal=store,
        owners=store,
        orders=store,
        budgets=store,
        outbox=store,
        leaders=MemoryLeaders(store),
        bus=store.bus,
        deltas=ProcessDeltas(),
        clock=ManualClock(),
        model_for=lambda _crew, _agent, _run: model,
        toolbox=toolbox,
    )


async def play(toolbox: PythonToolbox, rounds: list[Calls], *, user: str = "ann", also: str = "") -> Played:
    """Plays a run whose agent makes these calls, a list for each reply, and then ends."""
    crew, store = crew_with(*toolbox.names, *also.split()), MemoryStore()
    replies = [Answer(tool_calls=tuple(ToolCall(name, dict(given)) for name, given in calls)) for calls in rounds]
    model = ScriptedModel({"clerk": [*replies, "done [END]"]})
    async with runner_with(toolbox, model, store) as runner:
        await runner.start(crew, "sha", "go", run_id="r", user=user)
        events = [event async for event in runner.follow("r")]
        await runner.wait_until_settled("r")
    told = [message.text for message in model.asked[-1].messages if message.role == "tool"]
    assert events[-1]["status"] == "completed", events[-1]
    return Played(told, events, replay_run(crew, "r", await store.records("r")).state, model)
