"""What this process gives to runs besides their crews: models, deps, the place of calls, functions of crews.

Rule 1: what is given with a run counts for its tree before what the process was opened with.
Rule 2: what is kept for a run is forgotten when the run is over.
Rule 3: functions come with a crew and are found by its sum, else by its name: the newest that was given here.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from interlock.adapters.function_callers import OWN_LOOP, FunctionCaller
from interlock.adapters.models.given_models import GivenModels, ModelChoice
from interlock.adapters.tools.python_tools import PythonTool
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import NO_NEEDS, HostNeeds
from interlock.errors import HostLacks
from interlock.ids import root_of

# Crews whose functions are kept by their sum, and by their name; the oldest are dropped.
CREWS_MAX = 1_000

# Runs for which something is kept before those that ended in another process are looked for.
SWEEP_MIN = 100

Functions = Mapping[str, PythonTool]
NO_FUNCTIONS: Functions = {}


class CrewLike(Protocol):
    """A crew as users write it in Python: its definition, and the functions that were given on its agents."""

    @property
    def definition(self) -> CrewDefinition: ...

    @property
    def functions(self) -> Functions: ...


AnyCrew = CrewDefinition | CrewLike


def definition_of(crew: AnyCrew) -> CrewDefinition:
    """The definition of a crew; another value is given back, and refused where a crew is required."""
    if isinstance(crew, CrewDefinition) or not hasattr(crew, "definition"):
        return crew  # type: ignore[return-value]
    return crew.definition


def functions_of(crew: AnyCrew) -> Functions:
    return NO_FUNCTIONS if isinstance(crew, CrewDefinition) else getattr(crew, "functions", NO_FUNCTIONS)


class RunGift(NamedTuple):
    """What a caller gives to one run: models in place of the crew's, deps for its tools, and where they are called."""

    models: ModelChoice | None = None
    deps: Any = None
    place: FunctionCaller = OWN_LOOP

    @property
    def is_empty(self) -> bool:
        return self.models is None and self.deps is None and self.place is OWN_LOOP


class RunResources:
    """`deps` and `models` are those of the process; `tools` are the functions that it was opened with, by name, and
    `has_tool` says whether it has a tool of a name from anywhere.
    """

    def __init__(
        self, models: GivenModels, deps: Any, tools: Iterable[str], has_tool: Callable[[str], bool] | None = None
    ) -> None:
        self._models, self._deps, self._tools = models, deps, frozenset(tools)
        self._has_tool = has_tool or self._tools.__contains__
        self._gifts: dict[str, RunGift] = {}
        self._run_models: dict[str, GivenModels] = {}
        self._by_sha: dict[str, Functions] = {}
        self._by_name: dict[str, Functions] = {}
        self._sweep_at = SWEEP_MIN

    # By run

    def give(self, run: str, gift: RunGift) -> None:
        """Keeps what is given to a run until it is over."""
        if gift.is_empty:
            return
        root = root_of(run)
        self._gifts[root] = gift
        if gift.models is not None:
            self._run_models[root] = GivenModels(gift.models, place=gift.place)

    def forget(self, run: str) -> None:
        self._gifts.pop(root_of(run), None)
        self._run_models.pop(root_of(run), None)

    def on_run_over(self, run: str) -> None:
        self.forget(run)

    def gift_of(self, run: str) -> RunGift | None:
        return self._gifts.get(root_of(run))

    @contextmanager
    def giving(self, run: str, gift: RunGift) -> Iterator[None]:
        """Gives to a run, and takes it back if that fails. A caller that is cancelled may have started the run."""
        before = self._gifts.get(root_of(run))
        self.give(run, gift)
        try:
            yield
        except Exception:
            self.forget(run)
            if before is not None:
                self.give(run, before)
            raise

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs for which something is kept."""
        return tuple(self._gifts)

    async def sweep(self, is_over: Callable[[str], Awaitable[bool]]) -> None:
        """Forgets runs that ended in other processes, once there are many."""
        if len(self._gifts) < self._sweep_at:
            return
        for run in self.runs:
            if await is_over(run):
                self.forget(run)
        self._sweep_at = max(SWEEP_MIN, 2 * len(self._gifts))

    def models_for(self, run: str) -> GivenModels:
        return self._run_models.get(root_of(run), self._models)

    def deps_for(self, run: str) -> Any:
        gift = self._gifts.get(root_of(run))
        return self._deps if gift is None or gift.deps is None else gift.deps

    def place_for(self, run: str) -> FunctionCaller:
        gift = self._gifts.get(root_of(run))
        return OWN_LOOP if gift is None else gift.place

    # By crew

    def give_functions(self, shas: Iterable[str], names: Iterable[str], functions: Functions) -> None:
        """Keeps the functions of a crew, for it and for all that it calls."""
        if not functions:
            return
        for kept, keys in ((self._by_sha, shas), (self._by_name, names)):
            for key in keys:
                kept.pop(key, None)
                kept[key] = functions
            while len(kept) > CREWS_MAX:
                del kept[next(iter(kept))]

    def functions_of(self, crew: str, crew_sha: str) -> Functions:
        return self._by_sha.get(crew_sha) or self._by_name.get(crew, NO_FUNCTIONS)

    # Needs

    def needs_of(self, run: str, crew: CrewDefinition, crew_sha: str) -> HostNeeds:
        """What a run of the crew that begins now needs from its host."""
        uses_models, providers = self.models_for(run).used_by(crew)
        given = {*self._tools, *self.functions_of(crew.name, crew_sha)}
        named = dict.fromkeys(tool for each in crew.whole_tree() for agent in each.agents for tool in agent.tools)
        needs = HostNeeds(
            models=uses_models,
            providers=providers,
            deps=self.deps_for(run) is not None,
            functions=tuple(tool for tool in named if tool in given),
        )
        return needs if needs != NO_NEEDS else NO_NEEDS  # the journal omits this object only

    def require_supplied(self, run: str, crew: CrewDefinition, crew_sha: str, needs: HostNeeds) -> None:
        """`HostLacks` unless this process gives everything that the run needs."""
        missing = []
        if needs.models and not self.models_for(run).replies_for(crew, needs.providers):
            missing.append("models")
        if needs.deps and self.deps_for(run) is None:
            missing.append("deps")
        functions = self.functions_of(crew.name, crew_sha)
        missing += [name for name in needs.functions if name not in functions and not self._has_tool(name)]
        if missing:
            raise HostLacks(root_of(run), missing)
