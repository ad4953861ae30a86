"""`simulate`: a whole crew under virtual time, with trouble from one seed, and the laws looked at after every record.

    from interlock import load_crew
    from interlock.testing import simulate_many

    simulate_many(load_crew("examples/quiz-exam"), seeds=range(200))

Rule 1: everything follows from the arguments. The same seed gives the same journal, byte for byte, on any machine.
Rule 2: the runner, its timers and the engine are the real ones; only the doors to the outside are simulated.
Rule 3: first there is trouble, then a quiet phase without any, in which the run must come to its end.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.journal_format import decoded
from interlock.adapters.models.functions import FunctionModel, ModelFunction
from interlock.adapters.models.scripted import Answers, ScriptedModel
from interlock.adapters.script_files import read_script
from interlock.adapters.tools_python import PythonTool
from interlock.crew.definition import Agent, Crew
from interlock.errors import InterlockError, ModelRefused, UsageError
from interlock.ports import Model, Record
from interlock.runtime.forking import fork_places, forked
from interlock.runtime.watching import Public, public_events
from interlock.testing.director import Director, Plot
from interlock.testing.faults import Faults, Injected, Violation
from interlock.testing.random_model import RandomModel
from interlock.testing.simulated_ports import toolbox_for
from interlock.testing.simulated_process import ModelFor

AnyModel = Model | ModelFunction
Tools = Sequence[PythonTool | Callable[..., Any]]


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one seed. `violations` is empty when every law held.

    `journal` is the run, and then those below it, as a store keeps them: one line of canonical JSON a record.
    `records` are the run's own, `below` those of its children and theirs. `lives` counts the processes that it took,
    `virtual_ms` the time that would have passed.
    """

    seed: int
    crew: Crew
    run: str
    status: str
    reason: str
    journal: bytes
    records: tuple[Record, ...]
    below: dict[str, tuple[Record, ...]] = {}
    faults: tuple[Injected, ...]
    violations: tuple[Violation, ...]
    lives: int
    steps: int
    virtual_ms: int

    @property
    def events(self) -> list[Public]:
        """The run's events as people and programs see them."""
        return [event for record in self.records for event in public_events(self.run, record)]

    @property
    def fork_places(self) -> list[int]:
        """The seqs after which `simulate(..., fork=(simulation, seq))` can go another way."""
        return fork_places(self.crew, self.run, self.records)

    def require_lawful(self) -> None:
        """Raises `LawBroken` unless every law held."""
        if self.violations:
            raise LawBroken(self)


class LawBroken(InterlockError):
    """A simulation found something; the message says what, and how to see it again."""

    code = "law-broken"

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        first = simulation.violations[0]
        last = "; ".join(f"{fault.at_ms} ms {fault.what}" for fault in simulation.faults[-5:]) or "none"
        super().__init__(
            f"seed {simulation.seed} of crew '{simulation.crew.name}' breaks a law: {first}. "
            f"The last faults before: {last}. Repeat it with simulate(crew, seed={simulation.seed}, ...) "
            "and the same other arguments"
        )


def simulate(
    crew: Crew,
    *,
    seed: int,
    input: str = "Begin. [END] [STOP] [NEXT]",  # noqa: A002 - what users call it everywhere
    script: Answers | str | PathLike[str] | None = None,
    models: AnyModel | Mapping[str, AnyModel] | None = None,
    tools: Tools = (),
    faults: Faults | None = None,
    answers: int = 20,
    fork: tuple[Simulation, int] | None = None,
) -> Simulation:
    """Runs the crew once, with whatever trouble the seed brings, and says what came of it.

    Without `script` or `models` a random model speaks for every agent: its legal marks mostly, sometimes none,
    several, wrong ones, and calls of its tools. Tools that the crew names and `tools` lacks get stand-ins.
    Plain functions are called where they stand; async ones may sleep, which takes virtual time only.
    `answers` is how often a person answers an open wait in the quiet phase before she leaves the run paused.
    `fork` starts from the recorded past of another simulation, up to one of its `fork_places`.
    """
    _refuse_inside_a_loop()
    run = f"simulated-{seed}"
    plot = Plot(
        crew=crew,
        seed=seed,
        run=run,
        input=input,
        faults=faults or Faults(),
        answers=answers,
        tools=toolbox_for(crew, tools, seed),
        model_for=_model_for(crew, seed, script, models),
        past=tuple(forked(crew, fork[0].run, fork[0].records, fork[1], run)[1]) if fork is not None else (),
    )
    return _told(plot, Director(plot).played())


def simulate_many(crew: Crew, *, seeds: Iterable[int], **how: Any) -> list[Simulation]:
    """`simulate` for every seed; `LawBroken` at the first that breaks a law, with how to repeat it."""
    done = []
    for seed in seeds:
        simulation = simulate(crew, seed=seed, **how)
        simulation.require_lawful()
        done.append(simulation)
    return done


def _told(plot: Plot, director: Director) -> Simulation:
    referee = director.referee
    return Simulation(
        seed=plot.seed,
        crew=plot.crew,
        run=director.run,
        status=referee.root.shadow.state.status,
        reason=referee.root.shadow.state.reason,
        journal=b"".join(body + b"\n" for books in referee.books.values() for body in books.written),
        records=tuple(map(decoded, referee.root.written)),
        below={run: tuple(map(decoded, books.written)) for run, books in referee.books.items() if run != director.run},
        faults=tuple(referee.injected),
        violations=tuple(referee.violations),
        lives=len(director.processes),
        steps=director.steps,
        virtual_ms=director.virtual_ms,
    )


def _model_for(crew: Crew, seed: int, script: Any, models: Any) -> ModelFor:
    if script is not None and models is not None:
        raise UsageError("give `script` or `models`, not both")
    if script is not None:
        scripted = ScriptedModel(script if isinstance(script, Mapping) else read_script(Path(script)))
        return lambda _crew, _agent: scripted
    if models is None:
        random = RandomModel(crew, seed)
        return lambda _crew, _agent: random
    return lambda _crew, agent: _chosen(models, agent)


def _chosen(models: AnyModel | Mapping[str, AnyModel], agent: Agent) -> Model:
    provider = agent.primary.provider if agent.primary is not None else ""
    given = models.get(provider) if isinstance(models, Mapping) else models
    if given is None:
        raise ModelRefused(f"agent '{agent.id}' wants provider '{provider}', and `models` has none of that name")
    return given if hasattr(given, "reply") else FunctionModel(given)


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("a simulation has an event loop of its own; call it from plain code, not from async code")
