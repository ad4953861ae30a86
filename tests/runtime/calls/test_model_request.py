"""The request of a model call depends on the run, its conversation and the effect alone."""

from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.crew.definition import AgentDefinition, CrewDefinition, CrewSettings, RouteDefinition
from interlock.engine.effects import CallModel
from interlock.engine.events import RunStarted
from interlock.engine.prompt.conversation import UNSCALED
from interlock.engine.prompt.texts import PromptTexts
from interlock.engine.run import RULES, Run
from interlock.ports import ModelRequest, RunRow
from interlock.runtime.calls.model_request import build_model_request
from interlock.runtime.live_run import LiveRun
from interlock.signals import SignalBehavior

CREW = CrewDefinition(
    version="2.0",
    name="story",
    entry_point="a",
    agents=(AgentDefinition(id="a", name="Ann", tools=("search",), temperature=0.5),),
    routes={"a": (RouteDefinition(signal="[END]", behavior=SignalBehavior.TERMINATE, priority=100),)},
    settings=CrewSettings(),
)


def search(words: str) -> str:
    """Searches for words."""
    return words


def started() -> tuple[LiveRun, CallModel]:
    run = Run(CREW, "r")
    step = run.apply(RunStarted(crew="story", input="Lamps", rules=RULES, crew_sha=""))
    (call,) = [effect for effect in step.effects if isinstance(effect, CallModel)]
    row = RunRow(run="r", crew="story", crew_sha="0" * 64, status="running")
    return LiveRun(run, row, PromptTexts(CREW, run.table), lambda: True), call


def request_of(live: LiveRun, call: CallModel) -> ModelRequest:
    return build_model_request(live, CREW.agents[0], call, UNSCALED, PythonToolbox((search,)))


def test_a_request_holds_the_input_the_tools_and_the_settings_of_the_agent() -> None:
    request = request_of(*started())
    assert (request.key, request.agent, request.temperature) == ("r:1.0", "a", 0.5)
    assert [tool.name for tool in request.tools] == ["search"]
    assert "Lamps" in request.messages[-1].text


def test_the_same_run_gives_the_same_request_and_stays_as_it_was() -> None:
    live, call = started()
    seq = live.run.state.seq
    assert request_of(live, call) == request_of(live, call) == request_of(*started())
    assert live.run.state.seq == seq
