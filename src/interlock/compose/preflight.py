"""Checks before a run: input, crew, models and tools are refused before anything is stored."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import BUILT_IN_TOOLS
from interlock.engine.builtin_tools import BUILTIN_TOOLS
from interlock.engine.events import CrewContext, RunStarted
from interlock.engine.kinds import HookPoint
from interlock.engine.routing.emit_signal import EMIT_SIGNAL
from interlock.engine.shared_memory import value_fault
from interlock.errors import UsageError
from interlock.ids import is_run_id
from interlock.limits import MEMORY_KEY_CHARS_MAX, MEMORY_KEYS_MAX
from interlock.ports import Journal, Record, RunRow
from interlock.runtime.calls.bus_tools import BUS_TOOLS
from interlock.runtime.supplies import RunSupplies

# Of the name of a caller or a user, in a journal.
NAME_CHARS_MAX = 200


def require_crew(crew: object) -> None:
    """Refuses a path or a name in place of a crew."""
    if isinstance(crew, CrewDefinition):
        return
    if isinstance(crew, str | os.PathLike):
        raise UsageError(f"a run needs a crew, not its path or name {str(crew)[:80]!r}; read it with load_crew(path)")
    raise UsageError(f"a run needs a crew from load_crew, not {type(crew).__name__}")


def require_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{what} must be text (str), not {type(text).__name__}")


def require_parts(data: object, store: object, tools: object, models: object) -> None:
    """Refuses arguments of `Interlock` that have the wrong type."""
    if data is not None and not isinstance(data, str | os.PathLike):
        raise UsageError(f"data must be the path of a folder, or the URL of a store, not {type(data).__name__}")
    if store is not None and not isinstance(store, str):
        raise UsageError(f"store must be the URL of a store, such as 'sqlite:DIR', not {type(store).__name__}")
    if not isinstance(tools, Iterable) or isinstance(tools, str):
        raise UsageError(f"tools must be a list of functions, not {type(tools).__name__}")
    require_models_value(models)


def require_models_value(models: object) -> None:
    if not (models is None or isinstance(models, Mapping) or callable(models) or hasattr(models, "reply")):
        raise UsageError(f"models must be a function, a model, or a mapping of them, not {type(models).__name__}")


def require_hooks(hooks: object) -> None:
    """Refuses hooks without a name or a method, and two of one name: a run is resumed by the names of its hooks."""
    if not isinstance(hooks, Iterable) or isinstance(hooks, str):
        raise UsageError(f"hooks must be a list of objects, not {type(hooks).__name__}")
    names = []
    for hook in hooks:
        name, points = getattr(hook, "name", None), [point for point in HookPoint if hasattr(hook, point)]
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"a hook needs a name: {type(hook).__name__} has none")
        if not points:
            raise UsageError(f"hook '{name}' has none of {', '.join(HookPoint)}; give it one of these methods")
        if odd := next((point for point in points if not callable(getattr(hook, point))), None):
            raise UsageError(f"hook '{name}': {odd} must be a method")
        names.append(name)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two hooks are called '{twice}'; rename one of them")


def require_name(name: object, what: str = "the caller (by)") -> None:
    """Refuses the name of a caller or user that is not text, or too long for a journal."""
    require_text(name, what)
    if isinstance(name, str) and len(name) > NAME_CHARS_MAX:
        raise UsageError(f"{what} has {len(name)} characters; the limit is {NAME_CHARS_MAX}")


def require_drivable(crew: CrewDefinition) -> None:
    """Refuses built-in tools that crew files may name and this version cannot run."""
    driven = (*BUILTIN_TOOLS, *BUS_TOOLS, *((EMIT_SIGNAL,) if crew.settings.signal_mode == "tool" else ()))
    named = [tool for agent in crew.agents for tool in agent.tools if tool not in driven]
    built_in = [tool for tool in named if tool in BUILT_IN_TOOLS]
    if built_in:
        raise UsageError(f"crew '{crew.name}' uses {built_in[0]}; this version cannot run that tool yet")


def require_size(crew: CrewDefinition, text: str) -> None:
    most = crew.settings.max_input_size_kb
    if len(text.encode("utf-8", "replace")) > most * 1024:
        raise UsageError(f"the input is larger than max_input_size_kb ({most} kB)")


def require_run_id(run_id: str) -> None:
    if not is_run_id(run_id):
        raise UsageError(f"'{run_id[:80]}' is not a valid run id; use up to 100 letters, digits, '.', '_' and '-'")


def require_context(context: CrewContext) -> None:
    """Refuses a context that is not JSON, or larger than the shared memory may be: the journal keeps it."""
    try:
        msgspec.json.decode(msgspec.json.encode(context, order="deterministic"), type=CrewContext)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the run's context is not valid JSON: {error}") from error
    memory = context.shared_memory
    if len(memory) > MEMORY_KEYS_MAX:
        raise UsageError(f"the shared memory has {len(memory)} keys; the limit is {MEMORY_KEYS_MAX}")
    for key, value in memory.items():
        if not 0 < len(key) <= MEMORY_KEY_CHARS_MAX:
            raise UsageError(
                f"'{key[:80]}' in the shared memory is not a valid key; use 1 to {MEMORY_KEY_CHARS_MAX} characters"
            )
        if fault := value_fault(value):
            raise UsageError(f"the value of '{key}' in the shared memory {fault}")


def require_no_key(crew: CrewDefinition, keys: KnownSecrets) -> None:
    """Refuses a crew that contains a secret: it is stored as it is, and its prompts are sent to providers."""
    body = msgspec.json.encode(crew).decode()
    if keys.redact(body) != body:
        name = keys.redact(crew.name)
        raise UsageError(f"crew '{name}' contains a secret of this host; remove it: keys come from the environment")


def require_tools(crew: CrewDefinition, names: Sequence[str], run: str = "", *, has_file: bool = True) -> None:
    """Refuses a crew that names tools which this host does not have."""
    missing = list(dict.fromkeys(_missing_tools(crew, names)))
    if missing:
        subject = f"run '{run}' of crew '{crew.name}'" if run else f"crew '{crew.name}'"
        file = "interlock.toml" if has_file else "interlock.toml (none was found here; --config FILE names one)"
        raise UsageError(
            f"{subject} needs tools that this host does not have: {', '.join(missing)}; "
            f"name their modules under [tools] in {file}, or give them as tools"
        )


def _missing_tools(crew: CrewDefinition, names: Sequence[str]) -> Iterator[str]:
    """Missing tools; none in a 1.0 file, where an unknown tool is a warning and the model gets its name."""
    if crew.version == "1.0":
        return
    for agent in crew.agents:
        for tool in agent.tools:
            if tool not in names and tool not in BUILT_IN_TOOLS and not tool.startswith("mcp:"):
                yield tool


class ModelCheck(Protocol):
    """Checks that a process has the models of a crew."""

    def require_reachable(self, crew: CrewDefinition, run: str, *, is_new: bool) -> None: ...

    def require_named(self, crew: CrewDefinition, run: str, *, is_new: bool) -> None: ...


class ToolCheck(Protocol):
    """Checks that a process has the tools of a crew."""

    async def require(self, crew: CrewDefinition, run: str = "") -> None: ...


class Preflight:
    """Refuses crews whose models or tools this process does not have.

    A process that drives no run needs none of them.
    """

    def __init__(self, models: ModelCheck, tools: ToolCheck, supplies: RunSupplies, *, drives: bool = True) -> None:
        self._models, self._tools, self._supplies, self._drives = models, tools, supplies, drives

    async def require_runnable(self, crew: CrewDefinition, row: RunRow, journal: Journal) -> None:
        """Requires all that a run needs to continue here: first what it was begun with, then models and tools."""
        if self._drives:
            await self.require_for(crew, row, (await journal.records(row.run, 0, 1))[0])

    async def require_for(self, crew: CrewDefinition, row: RunRow, first: Record) -> None:
        """The same for a process that drives runs, and has read the first record."""
        started = first.events[0]
        assert isinstance(started, RunStarted), "a run begins with run.started"
        self._supplies.require_supplied(row.run, crew, row.crew_sha, started.needs)
        await self.require_usable(crew, row.run, is_new=False)
        self.require_models(crew, row.run, is_new=False)

    async def require_usable(self, crew: CrewDefinition, run_id: str = "", *, is_new: bool = True) -> None:
        """Requires every model and tool that the crew and its sub-crews name."""
        for each in crew.whole_tree() if self._drives else ():
            self._models.require_reachable(each, run_id, is_new=is_new)
            await self._tools.require(each, "" if is_new else run_id)

    def require_models(self, crew: CrewDefinition, run_id: str = "", *, is_new: bool = True) -> None:
        """Requires a model for every agent: a run that cannot continue is not touched."""
        for each in crew.whole_tree() if self._drives else ():
            self._models.require_named(each, run_id, is_new=is_new)
