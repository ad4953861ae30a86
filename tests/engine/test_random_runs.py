"""Law 2: a random crew with a random driver always ends, in a bounded number of steps, with a typed reason.

Also: no legal event makes the engine raise, a replay gives the same facts, and a snapshot is the whole state.
"""

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from interlock.crew.checks import check_crew
from interlock.crew.definition import (
    AgentBehavior,
    AgentDefinition,
    CrewDefinition,
    CrewSettings,
    GroupDefinition,
    ModelRef,
    RouteDefinition,
)
from interlock.crew.nodes import Mapping, SourceLocation
from interlock.crew.problem import Problems, is_sound
from interlock.crew.source import CrewSource
from interlock.engine.effects import CallModel, Cancel, Effect, RunTool, SetTimer
from interlock.engine.events import (
    IncomingEvent,
    ModelFailed,
    ModelReplied,
    RunFinished,
    RunResumed,
    RunStarted,
    TimerFired,
    ToolOutcomeLost,
    ToolRequest,
    ToolReturned,
    Usage,
)
from interlock.engine.run import OVER, RULES, Run
from interlock.signals.definition import SignalBehavior

CREWS = 2_000
RESUMES_MAX = 6
REASONS = (
    "signal:", "terminal_agent", "no_signal_complete", "max_handoffs", "max_rounds", "max_occurs", "timeout",
    "loop_detected", "budget:", "no_signal", "conflict", "model_error", "group_failed", "tool_unknown_outcome",
)  # fmt: skip
SIGNALS = ("[NEXT]", "[QUESTION]", "[ANSWER]", "[RETRY]", "[END]", "[WAIT]", "[GO]", "[ASK]", "[HEY]")


def a_crew(chance: random.Random) -> CrewDefinition:
    """Some crew; most are not sound."""
    ids = [f"a{n}" for n in range(chance.randint(1, 4))]
    groups = {
        f"g{n}": GroupDefinition(
            name=f"g{n}",
            agents=tuple(chance.sample(ids, chance.randint(1, len(ids)))),
            wait_for_all=chance.random() < 0.5,
            next_agent=chance.choice(["", *ids]),
            on_error=chance.choice(["continue", "fail"]),
        )
        for n in range(chance.randint(0, 2))
    }
    return CrewDefinition(
        version="2.0",
        name="random",
        entry_point=ids[0],
        agents=tuple(_an_agent(chance, id_, ids) for id_ in ids),
        routes={id_: tuple(_some_routes(chance, ids, list(groups))) for id_ in ids},
        defaults={id_: chance.choice(ids) for id_ in ids if chance.random() < 0.2},
        behaviors={
            id_: AgentBehavior(wait_for_signal=chance.random() < 0.2, auto_route=chance.random() < 0.8) for id_ in ids
        },
        groups=groups,
        settings=CrewSettings(
            signal_position="anywhere",
            max_handoffs=chance.randint(1, 6),
            max_rounds=chance.randint(1, 4),
            loop_window=chance.choice([0, 3, 20]),
            on_no_signal=chance.choice(["nudge", "fail", "complete"]),
            on_conflict=chance.choice(["priority", "nudge", "fail"]),
            max_calls_per_run=chance.choice([None, 5]),
        ),
    )


def _an_agent(chance: random.Random, id_: str, ids: list[str]) -> AgentDefinition:
    targets = tuple(chance.sample(ids, 1)) if chance.random() < 0.2 else ()
    backup = ModelRef(provider="ollama", model="small") if chance.random() < 0.3 else None
    return AgentDefinition(id=id_, name=id_, is_terminal=chance.random() < 0.2, handoff_targets=targets, backup=backup)


def _some_routes(chance: random.Random, ids: list[str], groups: list[str]) -> Iterator[RouteDefinition]:
    for signal in chance.sample(SIGNALS, chance.randint(0, 4)):
        kinds = [SignalBehavior.ROUTE, SignalBehavior.TERMINATE, SignalBehavior.PAUSE, SignalBehavior.EXTERNAL]
        behavior = chance.choice([*kinds, SignalBehavior.BROADCAST, *([SignalBehavior.PARALLEL] if groups else [])])
        target = {SignalBehavior.ROUTE: chance.choice(ids), SignalBehavior.PARALLEL: chance.choice(groups or [""])}
        yield RouteDefinition(
            signal=signal,
            behavior=behavior,
            priority=chance.choice([10, 50, 100]),
            target=target.get(behavior, ""),
            pause=behavior is SignalBehavior.EXTERNAL and chance.random() < 0.5,
        )


def in_some_mode(crew: CrewDefinition, seed: int) -> CrewDefinition:
    """Every third crew steers by a tool."""
    return replace(crew, settings=replace(crew.settings, signal_mode="tool")) if seed % 3 == 0 else crew


def is_a_sound_crew(crew: CrewDefinition) -> bool:
    source = CrewSource(Mapping((), SourceLocation("crew.yaml", 1, 1)), "random")
    source.routes = {
        agent: [("routing", "signals", agent, n) for n in range(len(r))] for agent, r in crew.routes.items()
    }
    problems = Problems()
    check_crew(crew, source, problems)
    return is_sound(problems.found)


class Driver:
    """Answers what a run orders in any order, with any answer a driver could give."""

    def __init__(self, crew: CrewDefinition, chance: random.Random) -> None:
        self.run, self.chance = Run(crew, "r"), chance
        self.open: dict[str, Effect] = {}
        self.events: list[IncomingEvent] = []
        self.facts: list[object] = []
        self.resumes = 0

    def feed(self, event: IncomingEvent) -> None:
        step = self.run.apply(event)
        self.events.append(event)
        self.facts.append(step.facts)
        for effect in step.effects:
            if isinstance(effect, Cancel):
                self.open.pop(effect.key, None)
            elif isinstance(effect, CallModel | RunTool | SetTimer):
                self.open[effect.key] = effect

    def go(self) -> None:
        self.feed(RunStarted(crew="random", input="go", rules=RULES))
        while self.run.state.status not in OVER:
            if self.run.state.status == "paused":
                if self.resumes == RESUMES_MAX:
                    return
                self.resumes += 1
                wait = self.chance.choice(self.run.state.waits)
                self.feed(RunResumed(token=wait.token, input=self.chance.choice(["", "yes", "no", "retry", "fail"])))
                continue
            working = [e for e in self.open.values() if not isinstance(e, SetTimer)]
            assert working or self.open, "a running run has something under way: it cannot hang"
            # Deadlines are rarely reached, unless nothing else is left to happen.
            timers = [e for e in self.open.values() if isinstance(e, SetTimer)]
            pool = timers if not working or self.chance.random() < 0.05 else working
            effect = self.chance.choice(pool)
            del self.open[effect.key]
            self.feed(self.answer(effect))

    def answer(self, effect: Effect) -> IncomingEvent:
        luck = self.chance.random()
        if isinstance(effect, SetTimer):
            return TimerFired(timer=effect.key, worked_ms=effect.duration_ms)
        if isinstance(effect, RunTool):
            if luck < 0.1:
                return ToolOutcomeLost(call=effect.key)
            return ToolReturned(call=effect.key, ok=luck < 0.8, output="out", worked_ms=5)
        assert isinstance(effect, CallModel)
        if luck < 0.1:
            return ModelFailed(call=effect.key, agent=effect.agent, error="down", retry=luck < 0.08)
        calls = (ToolRequest(id="t", name="tool", arguments="{}"),) * self.chance.randint(1, 2) if luck < 0.2 else ()
        if self.run.crew.settings.signal_mode == "tool" and luck > 0.4:
            calls += tuple(self._emission() for _ in range(self.chance.randint(1, 2)))
        marks = " ".join(self.chance.sample(SIGNALS, self.chance.randint(0, 2)))
        text = f"{self.chance.choice(['so', 'well', str(luck)])} {marks}"
        return ModelReplied(
            call=effect.key, agent=effect.agent, text=text, usage=Usage(), tool_calls=calls, worked_ms=10
        )

    def _emission(self) -> ToolRequest:
        name = self.chance.choice([*SIGNALS, "end", "NOPE", ""])
        arguments = self.chance.choice([f'{{"name": "{name}", "reason": "so"}}'] * 9 + ["{"])
        return ToolRequest(id="e", name="emit_signal", arguments=arguments)


def bound_of(crew: CrewDefinition) -> int:
    """More events than any run of the crew can have: departures and resumes, members, calls, tries, tools, timers."""
    settings = crew.settings
    turns = (settings.max_handoffs + 2 + RESUMES_MAX) * (len(crew.agents) + 2)
    return turns * settings.max_rounds * 8 + 10


@pytest.mark.parametrize("part", range(4))
def test_every_random_run_ends_with_a_typed_reason(part: int) -> None:
    sound = 0
    for seed in range(part * CREWS, (part + 1) * CREWS):
        chance = random.Random(seed)
        crew = in_some_mode(a_crew(chance), seed)
        if not is_a_sound_crew(crew):
            continue
        sound += 1
        driver = Driver(crew, chance)
        driver.go()
        state = driver.run.state
        assert len(driver.events) <= bound_of(crew), seed
        if state.status in OVER:
            assert state.reason.startswith(REASONS), (seed, state.reason)
            last = driver.facts[-1]
            assert isinstance(last, tuple)
            assert any(isinstance(fact, RunFinished) for fact in last), seed
            assert not driver.run.outstanding_effects(), seed
        else:
            assert driver.resumes == RESUMES_MAX, seed
        again = Run(crew, "r")
        assert [again.apply(event).facts for event in driver.events] == driver.facts, seed
        assert again.snapshot() == driver.run.snapshot(), seed
        assert Run.restore(crew, driver.run.snapshot()).snapshot() == driver.run.snapshot(), seed
    assert sound > CREWS / 20, "too few of the crews were sound to prove anything"
