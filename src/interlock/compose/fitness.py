"""Whether this process can drive a crew: better said before anything is stored than ignored on the way."""

import os
from collections.abc import Iterator, Sequence

import msgspec

from interlock.adapters.models.known_keys import KnownKeys
from interlock.adapters.tools_python import PythonToolbox
from interlock.crew.definition import Crew
from interlock.crew.host import BUILT_IN_TOOLS
from interlock.engine.emitting import EMIT_SIGNAL
from interlock.engine.events import CrewContext
from interlock.engine.own_tools import OWN_TOOLS
from interlock.engine.remembering import value_fault
from interlock.errors import UsageError
from interlock.ids import is_run_id
from interlock.limits import MEMORY_KEY_CHARS_MAX, MEMORY_KEYS_MAX
from interlock.runtime.bus_tools import BUS_TOOLS

# Of who asks, in a journal.
NAME_CHARS_MAX = 200


def require_crew(crew: object) -> None:
    """A sentence for whoever gives a crew's path or name in its place."""
    if isinstance(crew, Crew):
        return
    if isinstance(crew, str | os.PathLike):
        raise UsageError(f"a run needs a crew, not its path or name {str(crew)[:80]!r}; read it with load_crew(path)")
    raise UsageError(f"a run needs a crew as load_crew gives it, not {type(crew).__name__}")


def require_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{what} must be text (str), not {type(text).__name__}")


def require_name(by: object) -> None:
    """Who asks, as a journal keeps it."""
    require_text(by, "who asks (by)")
    if isinstance(by, str) and len(by) > NAME_CHARS_MAX:
        raise UsageError(f"who asks (by) has {len(by)} characters; {NAME_CHARS_MAX} are kept at most")


def require_drivable(crew: Crew) -> None:
    """Refuses the parts of crew files that are checked already and not driven yet."""
    driven = (*OWN_TOOLS, *BUS_TOOLS, *((EMIT_SIGNAL,) if crew.settings.signal_mode == "tool" else ()))
    named = [tool for agent in crew.agents for tool in agent.tools if tool not in driven]
    built_in = [tool for tool in named if tool in BUILT_IN_TOOLS]
    if built_in:
        raise UsageError(f"crew '{crew.name}' uses {built_in[0]}; this version knows that tool and cannot run it yet")


def require_size(crew: Crew, text: str) -> None:
    most = crew.settings.max_input_size_kb
    if len(text.encode("utf-8", "replace")) > most * 1024:
        raise UsageError(f"the input is larger than max_input_size_kb ({most} kB)")


def require_run_id(run_id: str) -> None:
    if not is_run_id(run_id):
        raise UsageError(f"'{run_id[:80]}' cannot be a run's id; use up to 100 letters, digits, '.', '_' and '-'")


def require_context(context: CrewContext) -> None:
    """What a host gives a run to begin with is kept in its journal, and bounded as what agents write."""
    try:
        msgspec.json.decode(msgspec.json.encode(context, order="deterministic"), type=CrewContext)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the run's context cannot be kept as JSON: {error}") from error
    memory = context.shared_memory
    if len(memory) > MEMORY_KEYS_MAX:
        raise UsageError(f"the shared memory has {len(memory)} keys, and may have {MEMORY_KEYS_MAX}")
    for key, value in memory.items():
        if not 0 < len(key) <= MEMORY_KEY_CHARS_MAX:
            raise UsageError(f"'{key[:80]}' in the shared memory is no key; use 1 to {MEMORY_KEY_CHARS_MAX} characters")
        if fault := value_fault(value):
            raise UsageError(f"the value of '{key}' in the shared memory {fault}")


def require_no_key(crew: Crew, keys: KnownKeys) -> None:
    """A crew is stored as it is, and its prompts are sent to whoever serves its models."""
    body = msgspec.json.encode(crew).decode()
    if keys.hidden(body) != body:
        name = keys.hidden(crew.name)
        raise UsageError(f"crew '{name}' holds a secret of this host; remove it: keys come from the environment")


def require_tools(crew: Crew, toolbox: PythonToolbox, run: str = "") -> None:
    """Refuses a crew that names functions which this host does not have; a run of it stays as it was."""
    missing = list(dict.fromkeys(_missing(crew, toolbox.names)))
    if missing:
        subject = f"run '{run}' of crew '{crew.name}'" if run else f"crew '{crew.name}'"
        stays = "; the run stays as it was" if run else ""
        raise UsageError(
            f"{subject} needs tools that this host does not have: {', '.join(missing)}; "
            f"name their modules under [tools] in interlock.toml, or give them as tools{stays}"
        )


def _missing(crew: Crew, names: Sequence[str]) -> Iterator[str]:
    """In a 1.0 file an unknown tool is a warning, so the model is told of it and nothing is refused."""
    if crew.version == "1.0":
        return
    for agent in crew.agents:
        for tool in agent.tools:
            if tool not in names and tool not in BUILT_IN_TOOLS and not tool.startswith("mcp:"):
                yield tool
