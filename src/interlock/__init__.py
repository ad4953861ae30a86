"""Interlock: crews of language-model agents, proven sound before they run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.adapters.tools_python import ToolContext as ToolContext
    from interlock.adapters.tools_python import tool as tool
    from interlock.compose.box import Interlock as Interlock
    from interlock.compose.box import Result as Result
    from interlock.compose.crews import load_crew as load_crew
    from interlock.compose.crews import load_host as load_host
    from interlock.crew.definition import Crew as Crew
    from interlock.crew.problem import Problem as Problem
    from interlock.crew.unsound import UnreadableCrew as UnreadableCrew
    from interlock.crew.unsound import UnsoundCrew as UnsoundCrew
    from interlock.engine.events import CrewContext as CrewContext
    from interlock.errors import AlreadyResumed as AlreadyResumed
    from interlock.errors import CrewError as CrewError
    from interlock.errors import InterlockError as InterlockError
    from interlock.errors import RunNotFound as RunNotFound
    from interlock.errors import SignalError as SignalError
    from interlock.errors import UsageError as UsageError
    from interlock.runtime.delivery import ExternalSignal as ExternalSignal

__version__ = "0.1.0"

# Importing interlock loads nothing; a name loads its home the first time it is used.
_HOMES = {
    "RunNotFound": "interlock.errors",
    "AlreadyResumed": "interlock.errors",
    "Crew": "interlock.crew.definition",
    "CrewContext": "interlock.engine.events",
    "CrewError": "interlock.errors",
    "ExternalSignal": "interlock.runtime.delivery",
    "InterlockError": "interlock.errors",
    "Interlock": "interlock.compose.box",
    "Problem": "interlock.crew.problem",
    "Result": "interlock.compose.box",
    "SignalError": "interlock.errors",
    "ToolContext": "interlock.adapters.tools_python",
    "UnreadableCrew": "interlock.crew.unsound",
    "UnsoundCrew": "interlock.crew.unsound",
    "UsageError": "interlock.errors",
    "load_crew": "interlock.compose.crews",
    "load_host": "interlock.compose.crews",
    "tool": "interlock.adapters.tools_python",
}

__all__ = [
    "AlreadyResumed",
    "Crew",
    "CrewContext",
    "CrewError",
    "ExternalSignal",
    "Interlock",
    "InterlockError",
    "Problem",
    "Result",
    "RunNotFound",
    "SignalError",
    "ToolContext",
    "UnreadableCrew",
    "UnsoundCrew",
    "UsageError",
    "load_crew",
    "load_host",
    "tool",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'interlock' has no attribute {name!r}")
