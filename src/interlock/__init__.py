"""Interlock: crews of language-model agents, proven sound before they run."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.compose import load_crew as load_crew
    from interlock.compose import load_host as load_host
    from interlock.crew.definition import Crew as Crew
    from interlock.crew.problem import Problem as Problem
    from interlock.crew.unsound import UnreadableCrew as UnreadableCrew
    from interlock.crew.unsound import UnsoundCrew as UnsoundCrew
    from interlock.errors import CrewError as CrewError
    from interlock.errors import InterlockError as InterlockError
    from interlock.errors import SignalError as SignalError
    from interlock.errors import UsageError as UsageError

__version__ = "0.1.0"

# Importing interlock loads nothing; a name loads its home the first time it is used.
_HOMES = {
    "Crew": "interlock.crew.definition",
    "CrewError": "interlock.errors",
    "InterlockError": "interlock.errors",
    "Problem": "interlock.crew.problem",
    "SignalError": "interlock.errors",
    "UnreadableCrew": "interlock.crew.unsound",
    "UnsoundCrew": "interlock.crew.unsound",
    "UsageError": "interlock.errors",
    "load_crew": "interlock.compose",
    "load_host": "interlock.compose",
}

__all__ = [
    "Crew",
    "CrewError",
    "InterlockError",
    "Problem",
    "SignalError",
    "UnreadableCrew",
    "UnsoundCrew",
    "UsageError",
    "load_crew",
    "load_host",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'interlock' has no attribute {name!r}")
