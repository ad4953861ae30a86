"""The request of a model call depends on the run, its conversation and the effect alone."""

from collections.abc import Sequence

from interlock.crew.definition import AgentDefinition, CrewDefinition, CrewSettings, RouteDefinition
from interlock.engine.effects import CallModel
from interlock.engine.events import RunStarted
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.run import RULES, Run
from interlock.ports import ToolSchema
from interlock.runtime.calls.model_request import build_model_request
from interlock.signals import SignalBehavior

CREW = CrewDefinition(
    version="2.0",
    name="story",
    entry_point="a",
    agents=(AgentDefinition(id="a", name="Ann", tools=("search",), temperature=0.5),),
    routes={"a": (RouteDefinition(signal="[END]", behavior=SignalBehavior.TERMINATE, priority=100),)},
    settings=CrewSettings(),
)


def schemas(names: Sequence[str]) -> tuple[ToolSchema, ...]:
    return tuple(ToolSchema(name=name, description="", parameters={}) for name in names)


def started() -> tuple[Run, CallModel]:
    run = Run(CREW, "r")
    step = run.apply(RunStarted(crew="story", input="Lamps", rules=RULES, crew_sha=""))
    (call,) = [effect for effect in step.effects if isinstance(effect, CallModel)]
    return run, call


def test_a_request_holds_the_input_the_tools_and_the_settings_of_the_agent() -> None:
    run, call = started()
    request = build_model_request(run, Conversation(CREW, run.table), call, key="r:1.0", host_schemas=schemas)
    assert (request.key, request.agent, request.temperature) == ("r:1.0", "a", 0.5)
    assert [tool.name for tool in request.tools] == ["search"]
    assert "Lamps" in request.messages[-1].text


def test_the_same_run_gives_the_same_request_and_stays_as_it_was() -> None:
    run, call = started()
    seq = run.state.seq
    one = build_model_request(run, Conversation(CREW, run.table), call, key="r:1.0", host_schemas=schemas)
    two = build_model_request(run, Conversation(CREW, run.table), call, key="r:1.0", host_schemas=schemas)
    assert one == two and run.state.seq == seq
