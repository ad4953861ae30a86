"""`simulate`: runs a whole crew in virtual time, with faults from one seed, and checks the laws after every record.

    from interlock import load_crew
    from interlock.testing import simulate_many

    simulate_many(load_crew("examples/quiz-exam"), seeds=range(200))

Rule 1: everything follows from the arguments. The same seed gives the same journal, byte for byte, on any machine.
Rule 2: the runner, its timers and the engine are the real ones; only the ports are simulated.
Rule 3: first comes a phase with faults, then a quiet phase without, in which the run must end.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import msgspec

from interlock.adapters.crews.script_files import read_script
from interlock.adapters.models.function_model import FunctionModel, ModelFunction
from interlock.adapters.models.scripted_model import Answers, ScriptedModel
from interlock.adapters.store_rules.record_format import decode_record
from interlock.adapters.tools.python_tools import PythonTool
from interlock.adapters.value_types.output_types import OutputTypes, output_place
from interlock.adapters.value_types.output_validator import TypeFor
from interlock.approvals.patterns import BadCallPattern, parse_pattern
from interlock.approvals.rules import ApprovalRules
from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.errors import InterlockError, ModelRefused, UsageError
from interlock.ports import Model, Record
from interlock.ports.hooks import Hook
from interlock.runtime.following import PublicEvent, public_events
from interlock.runtime.fork import fork_places, fork_run
from interlock.testing.simulation.driver import SimulationDriver
from interlock.testing.simulation.faults import Faults, Injected, Violation
from interlock.testing.simulation.random_model import RandomModel
from interlock.testing.simulation.simulated_process import ModelFor
from interlock.testing.simulation.simulated_tools import toolbox_for
from interlock.testing.simulation.simulated_world import SimulationPlan

AnyModel = Model | ModelFunction
Tools = Sequence[PythonTool | Callable[..., Any]]


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one seed. `violations` is empty if every law held.

    `journal` is the run, and then the runs below it, as a store keeps them: one line of canonical JSON per record.
    `records` are those of the run, `below` those of the runs below it. `lives` counts the processes, `virtual_ms` the
    virtual time.
    """

    seed: int
    crew: CrewDefinition
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
    def events(self) -> list[PublicEvent]:
        """The public events of the run."""
        return [event for record in self.records for event in public_events(self.run, record)]

    @property
    def fork_places(self) -> list[int]:
        """The seqs at which `simulate(..., fork=(simulation, seq))` can fork."""
        return fork_places(self.crew, self.run, self.records)

    def require_lawful(self) -> None:
        """Raises `LawBroken` unless every law held."""
        if self.violations:
            raise LawBroken(self)


class LawBroken(InterlockError):
    """A simulation found a violation; the message says which, and how to repeat it."""

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


class _HasDefinition(Protocol):
    """A `Crew`, as users write or load it."""

    @property
    def definition(self) -> CrewDefinition: ...


def simulate(
    crew: _HasDefinition | CrewDefinition,
    *,
    seed: int,
    input: str = "Begin. [END] [STOP] [NEXT]",  # noqa: A002 - what users call it everywhere
    script: Answers | str | PathLike[str] | None = None,
    models: AnyModel | Mapping[str, AnyModel] | None = None,
    tools: Tools = (),
    faults: Faults | None = None,
    answers: int = 20,
    fork: tuple[Simulation, int] | None = None,
    approvals: Mapping[str, Sequence[str]] | None = None,
    approval_deadline_seconds: float = 0,
    hooks: Sequence[Hook] = (),
) -> Simulation:
    """Runs the crew once, with the faults of the seed, and returns the result.

    Without `script` or `models` a random model replies for every agent: mostly its legal signals, sometimes none,
    several or wrong ones, values, and tool calls. Tools that the crew names and `tools` lacks get stand-ins.
    A synchronous function runs on the event loop and blocks it; async ones may sleep, which takes virtual time only.
    `answers` is how often a person answers an open wait in the quiet phase; then the run stays paused.
    `approvals` are the rules of `[approvals]`: patterns under `deny`, `ask` and `allow`. A person then also answers
    `for this run` and `always`, and an approval without an answer is denied after `approval_deadline_seconds`.
    `hooks` are those of `Interlock(hooks=…)`. Plain ones run on the event loop, and some calls raise or hang.
    `fork` starts from the recorded past of another simulation, up to one of its `fork_places`.
    """
    _require_no_running_loop()
    run = f"simulated-{seed}"
    definition = crew if isinstance(crew, CrewDefinition) else crew.definition
    plan = SimulationPlan(
        crew=definition,
        seed=seed,
        run=run,
        input=input,
        faults=faults or Faults(),
        answers=answers,
        tools=toolbox_for(definition, tools, seed),
        model_for=_model_for(definition, seed, script, models),
        past=tuple(fork_run(definition, fork[0].run, fork[0].records, fork[1], run)[1]) if fork is not None else (),
        rules=_rules_of(approvals or {}),
        deadline_ms=round(approval_deadline_seconds * 1000),
        hooks=tuple(hooks),
        type_for=_types_of(crew),
    )
    return _simulation_of(plan, SimulationDriver(plan).run_to_end())


def simulate_many(crew: _HasDefinition | CrewDefinition, *, seeds: Iterable[int], **how: Any) -> list[Simulation]:
    """Runs `simulate` for every seed; raises `LawBroken` at the first violation."""
    done = []
    for seed in seeds:
        simulation = simulate(crew, seed=seed, **how)
        simulation.require_lawful()
        done.append(simulation)
    return done


def _simulation_of(plan: SimulationPlan, driver: SimulationDriver) -> Simulation:
    checker = driver.world.checker
    return Simulation(
        seed=plan.seed,
        crew=plan.crew,
        run=plan.run,
        status=str(checker.root.shadow.state.status),
        reason=checker.root.shadow.state.reason,
        journal=b"".join(body + b"\n" for model in checker.runs.values() for body in model.written),
        records=tuple(map(decode_record, checker.root.written)),
        below={run: tuple(map(decode_record, model.written)) for run, model in checker.runs.items() if run != plan.run},
        faults=tuple(checker.injected),
        violations=tuple(checker.violations),
        lives=len(driver.world.processes),
        steps=driver.steps,
        virtual_ms=driver.virtual_ms,
    )


def _model_for(crew: CrewDefinition, seed: int, script: Any, models: Any) -> ModelFor:
    if script is not None and models is not None:
        raise UsageError("give `script` or `models`, not both")
    if script is not None:
        scripted = ScriptedModel(script if isinstance(script, Mapping) else read_script(Path(script)))
        return lambda _crew, _agent: scripted
    if models is None:
        random = RandomModel(crew, seed)
        return lambda _crew, _agent: random
    return lambda _crew, agent: _choose_model(models, agent)


def _types_of(crew: _HasDefinition | CrewDefinition) -> TypeFor:
    """The types that came with a crew in Python."""
    types: OutputTypes = getattr(crew, "output_types", {})
    return lambda ref, agent: types.get(output_place(ref.name, agent))


def _rules_of(approvals: Mapping[str, Sequence[str]]) -> ApprovalRules:
    """The rules; raises `UsageError` for an unknown list or a bad pattern."""
    if unknown := [name for name in approvals if name not in ApprovalRules.__struct_fields__]:
        raise UsageError(f"there is no list '{unknown[0]}' of approvals; the lists are deny, ask and allow")
    try:
        return ApprovalRules(**{name: tuple(map(parse_pattern, texts)) for name, texts in approvals.items()})
    except BadCallPattern as error:
        raise UsageError(f"approvals: {error}") from error


def _choose_model(models: AnyModel | Mapping[str, AnyModel], agent: AgentDefinition) -> Model:
    provider = agent.primary.provider if agent.primary is not None else ""
    given = models.get(provider) if isinstance(models, Mapping) else models
    if given is None:
        raise ModelRefused(f"agent '{agent.id}' needs provider '{provider}', and `models` does not have it")
    return given if hasattr(given, "reply") else FunctionModel(given)


def _require_no_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("a simulation has its own event loop; call it from synchronous code")
