"""What this process gives to runs besides their crews: models, deps, the place of calls, functions of crews.

Rule 1: what is given with a run counts for its tree before what the process was opened with.
Rule 2: what is kept for a run is forgotten when the run is over.
Rule 3: functions and types of outputs come with a crew. A run has those of the crew that started it here, for two
crews that read the same may have functions of different users. Other runs find them by the sum of the crew, else by
its name: the newest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from interlock.adapters.function_callers import OWN_LOOP, FunctionCaller
from interlock.adapters.models.given_models import GivenModels, ModelChoice
from interlock.adapters.tools.python_tools import PythonTool, PythonToolbox
from interlock.adapters.value_types.output_types import OutputType, OutputTypes, output_place
from interlock.compose.given.crew_like import Functions, output_places
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import NO_NEEDS, HostNeeds
from interlock.errors import HostLacks
from interlock.ids import root_of
from interlock.ports import CrewRef

# Crews whose functions are kept by their sum, and by their name; the oldest are dropped.
CREWS_MAX = 1_000

# Runs for which something is kept before those that ended in another process are looked for.
SWEEP_MIN = 100

T = TypeVar("T")


class RunGift(NamedTuple):
    """What a caller gives to one run: models in place of the crew's, deps for its tools, and where they are called."""

    models: ModelChoice | None = None
    deps: Any = None
    place: FunctionCaller = OWN_LOOP
    tools: PythonToolbox | None = None
    types: OutputTypes | None = None

    @property
    def is_empty(self) -> bool:
        is_plain = self.models is None and self.deps is None and self.tools is None and self.types is None
        return is_plain and self.place is OWN_LOOP


class RunResources:
    """`deps` and `models` are those of the process; `tools` are the functions that it was opened with, by name, and
    `has_tool` says whether it has a tool of a name from anywhere, `asks_approval` whether the code of that tool asks.
    """

    def __init__(
        self,
        models: GivenModels,
        deps: Any,
        tools: Iterable[str],
        has_tool: Callable[[str], bool],
        asks_approval: Callable[[str], bool],
        hooks: Iterable[str] = (),
    ) -> None:
        self._hooks, self._asks_approval = tuple(hooks), asks_approval
        self._models, self._deps, self._tools, self._has_tool = models, deps, frozenset(tools), has_tool
        self._gifts: dict[str, RunGift] = {}
        self._run_models: dict[str, GivenModels] = {}
        self._no_tools = PythonToolbox()
        self._by_sha: dict[str, PythonToolbox] = {}
        self._by_name: dict[str, PythonToolbox] = {}
        self._functions: dict[str, Functions] = {}
        self._types_by_sha: dict[str, OutputTypes] = {}
        self._types_by_place: dict[str, OutputType] = {}
        self._sweep_at = SWEEP_MIN

    # By run

    def give(self, run: str, gift: RunGift) -> None:
        """Keeps what is given to a run until it is over."""
        if gift.is_empty:
            return
        root = root_of(run)
        if gift.tools is None and gift.types is None and (before := self._gifts.get(root)) is not None:
            gift = gift._replace(tools=before.tools, types=before.types)  # who answers a run gives no crew
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
    def lend(self, run: str, gift: RunGift) -> Iterator[None]:
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

    def loop_for(self, run: str) -> asyncio.AbstractEventLoop | None:
        """The loop in which async functions of a run are awaited; None if it is the one that drives it."""
        gift = self._gifts.get(root_of(run))
        return None if gift is None else gift.place.loop

    # By crew

    def give_functions(self, shas: Iterable[str], names: Iterable[str], functions: Functions) -> PythonToolbox | None:
        """Keeps the functions of a crew, for it and for all that it calls, and gives them as a toolbox."""
        sums = tuple(shas)
        if not functions:
            return None
        if all(self._functions.get(sha) == functions for sha in sums):
            return self._by_sha[sums[0]]
        toolbox = self.toolbox_of(functions.values())
        for sha in sums:
            _put_newest(self._functions, sha, functions)
            _put_newest(self._by_sha, sha, toolbox)
        for name in names:
            _put_newest(self._by_name, name, toolbox)
        return toolbox

    def toolbox_of(self, tools: Iterable[PythonTool | Callable[..., Any]]) -> PythonToolbox:
        """A toolbox whose tools get the deps of their runs, and are awaited in the loop of those who started them."""
        return PythonToolbox(tools, deps_for=self.deps_for, loop_for=self.loop_for)

    def tools_with(self, crew: CrewRef) -> PythonToolbox:
        """The functions that came with a crew."""
        gift = self._gifts.get(crew.root)
        if gift is not None and gift.tools is not None:
            return gift.tools
        return self._by_sha.get(crew.sha) or self._by_name.get(crew.name) or self._no_tools

    def give_types(self, shas: Iterable[str], types: OutputTypes) -> OutputTypes | None:
        """Keeps the types of the outputs of a crew and of all that it calls, and gives them."""
        if not types:
            return None
        for sha in shas:
            _put_newest(self._types_by_sha, sha, types)
        for place, type_ in types.items():
            _put_newest(self._types_by_place, place, type_)
        return types

    def output_type_for(self, crew: CrewRef, agent: str = "") -> OutputType | None:
        """The type of a crew's output, or of that of one of its agents; None if it was not given in Python."""
        return self._type_at(output_place(crew.name, agent), crew)

    def _type_at(self, place: str, crew: CrewRef) -> OutputType | None:
        gift = self._gifts.get(crew.root)
        given = gift.types if gift is not None and gift.types is not None else self._types_by_sha.get(crew.sha)
        return self._types_by_place.get(place) if given is None else given.get(place)

    def tools_of_crews(self) -> set[str]:
        """The names of the functions that came with any crew."""
        return {name for toolbox in self._by_name.values() for name in toolbox.names}

    # Needs

    def _is_guarded(self, tool: str, crew: CrewRef) -> bool:
        """Whether the code of a tool asks for approval, always or by a function."""
        own = self.tools_with(crew)
        if tool not in own.names:
            return self._asks_approval(tool)
        return own.needs_approval(tool, crew) or own.has_approval_function(tool, crew)

    def needs_of(self, run: str, crew: CrewDefinition, crew_sha: str) -> HostNeeds:
        """What a run of the crew that begins now needs from its host."""
        uses_models, providers = self.models_for(run).use_of(crew)
        ref = CrewRef(crew.name, crew_sha, root_of(run))
        given = {*self._tools, *self.tools_with(ref).names}
        named = dict.fromkeys(tool for each in crew.whole_tree() for agent in each.agents for tool in agent.tools)
        needs = HostNeeds(
            models=uses_models,
            providers=providers,
            deps=self.deps_for(run) is not None,
            functions=tuple(tool for tool in named if tool in given),
            approvals=tuple(tool for tool in named if tool in given and self._is_guarded(tool, ref)),
            hooks=self._hooks,
            outputs=tuple(
                place
                for place in output_places(crew)
                if (type_ := self._type_at(place, ref)) is not None and type_.demands_more
            ),
        )
        return needs if needs != NO_NEEDS else NO_NEEDS  # the journal omits this object only

    def require_supplied(self, run: str, crew: CrewDefinition, crew_sha: str, needs: HostNeeds) -> None:
        """`HostLacks` unless this process gives everything that the run needs."""
        missing = []
        if needs.models and not self.models_for(run).replies_for(crew, needs.providers):
            missing.append("models")
        if needs.deps and self.deps_for(run) is None:
            missing.append("deps")
        ref = CrewRef(crew.name, crew_sha, root_of(run))
        functions = self.tools_with(ref).names
        missing += [name for name in needs.functions if name not in functions and not self._has_tool(name)]
        unguarded = (name for name in needs.approvals if name not in missing and not self._is_guarded(name, ref))
        missing += [f"approval of {name}" for name in unguarded]
        missing += [f"hook {name}" for name in needs.hooks if name not in self._hooks]
        missing += [f"output type of {place}" for place in needs.outputs if self._type_at(place, ref) is None]
        if missing:
            raise HostLacks(root_of(run), missing)


def _put_newest(kept: dict[str, T], key: str, value: T) -> None:
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > CREWS_MAX:
        del kept[next(iter(kept))]
