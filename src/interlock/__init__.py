"""Interlock: crews of language-model agents, checked before they run.

The packages, from the outside in; each imports only those below it:
    cli                             the command line
    server                          the HTTP API and the dashboard
    authoring                       `Agent`, `Crew` and the rest, as users write crews in Python
    compose, testing                `Interlock`, which connects the parts; stand-ins and the simulation
    runtime | adapters              drives runs; SQLite, files, models, tools, webhooks, config
    ports                           the interfaces between runtime and adapters
    events                          the public events of a run, one class per type
    engine | diagrams               the pure state machine of a run; pictures of a crew
    crew                            definitions of crews: parsing and checks
    signals | broadcast | messages  marks in replies, announcements, directed messages
    errors, ids, limits             shared by all
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.adapters.tools.python_tools import tool as tool
    from interlock.adapters.tools.tool_context import ToolContext as ToolContext
    from interlock.authoring.agent import Agent as Agent
    from interlock.authoring.crew import Crew as Crew
    from interlock.authoring.load_crew import load_crew as load_crew
    from interlock.authoring.routes import END as END
    from interlock.authoring.routes import Broadcast as Broadcast
    from interlock.authoring.routes import External as External
    from interlock.authoring.routes import Group as Group
    from interlock.authoring.routes import Pause as Pause
    from interlock.authoring.routes import Route as Route
    from interlock.authoring.routes import SubCrew as SubCrew
    from interlock.compose.crews import load_host as load_host
    from interlock.compose.interlock import Interlock as Interlock
    from interlock.compose.interlock import Result as Result
    from interlock.compose.run_handle import RunHandle as RunHandle
    from interlock.crew.problem import Problem as Problem
    from interlock.crew.unsound import UnreadableCrew as UnreadableCrew
    from interlock.crew.unsound import UnsoundCrew as UnsoundCrew
    from interlock.engine.events import CrewContext as CrewContext
    from interlock.engine.events import ReasoningBlock as ReasoningBlock
    from interlock.errors import AlreadyResumed as AlreadyResumed
    from interlock.errors import AlreadyStarted as AlreadyStarted
    from interlock.errors import CrewError as CrewError
    from interlock.errors import HostLacks as HostLacks
    from interlock.errors import InputRefused as InputRefused
    from interlock.errors import InterlockError as InterlockError
    from interlock.errors import ModelRefused as ModelRefused
    from interlock.errors import ModelUnavailable as ModelUnavailable
    from interlock.errors import NotWaiting as NotWaiting
    from interlock.errors import PortError as PortError
    from interlock.errors import PromptTooLong as PromptTooLong
    from interlock.errors import Retry as Retry
    from interlock.errors import RunError as RunError
    from interlock.errors import RunNotFound as RunNotFound
    from interlock.errors import SignalError as SignalError
    from interlock.errors import UsageError as UsageError
    from interlock.ports.hooks import Ask as Ask
    from interlock.ports.hooks import HookCall as HookCall
    from interlock.ports.hooks import Refuse as Refuse
    from interlock.ports.hooks import RunOutput as RunOutput
    from interlock.ports.model import Delta as Delta
    from interlock.ports.model import ModelReply as ModelReply
    from interlock.ports.model import ModelRequest as ModelRequest
    from interlock.ports.model import ReasoningDelta as ReasoningDelta
    from interlock.ports.records import StoredRecord as StoredRecord
    from interlock.runtime.calls.external_signals import ExternalSignal as ExternalSignal
    from interlock.runtime.following.text_stream import TextPiece as TextPiece

__version__ = "0.1.0"

# Importing interlock loads nothing; a name loads its home the first time it is used.
_HOMES = {
    "Agent": "interlock.authoring.agent",
    "AlreadyResumed": "interlock.errors",
    "AlreadyStarted": "interlock.errors",
    "Ask": "interlock.ports.hooks",
    "Broadcast": "interlock.authoring.routes",
    "Crew": "interlock.authoring.crew",
    "CrewContext": "interlock.engine.events",
    "CrewError": "interlock.errors",
    "Delta": "interlock.ports.model",
    "END": "interlock.authoring.routes",
    "External": "interlock.authoring.routes",
    "ExternalSignal": "interlock.runtime.calls.external_signals",
    "Group": "interlock.authoring.routes",
    "HookCall": "interlock.ports.hooks",
    "HostLacks": "interlock.errors",
    "InputRefused": "interlock.errors",
    "Interlock": "interlock.compose.interlock",
    "InterlockError": "interlock.errors",
    "ModelRefused": "interlock.errors",
    "ModelReply": "interlock.ports.model",
    "ModelRequest": "interlock.ports.model",
    "ModelUnavailable": "interlock.errors",
    "NotWaiting": "interlock.errors",
    "Pause": "interlock.authoring.routes",
    "PortError": "interlock.errors",
    "Problem": "interlock.crew.problem",
    "PromptTooLong": "interlock.errors",
    "ReasoningBlock": "interlock.engine.events",
    "ReasoningDelta": "interlock.ports.model",
    "Refuse": "interlock.ports.hooks",
    "Result": "interlock.compose.interlock",
    "Retry": "interlock.errors",
    "Route": "interlock.authoring.routes",
    "RunError": "interlock.errors",
    "RunHandle": "interlock.compose.run_handle",
    "RunNotFound": "interlock.errors",
    "RunOutput": "interlock.ports.hooks",
    "SignalError": "interlock.errors",
    "StoredRecord": "interlock.ports.records",
    "SubCrew": "interlock.authoring.routes",
    "TextPiece": "interlock.runtime.following.text_stream",
    "ToolContext": "interlock.adapters.tools.tool_context",
    "UnreadableCrew": "interlock.crew.unsound",
    "UnsoundCrew": "interlock.crew.unsound",
    "UsageError": "interlock.errors",
    "load_crew": "interlock.authoring.load_crew",
    "load_host": "interlock.compose.crews",
    "tool": "interlock.adapters.tools.python_tools",
}

# Public packages; each is loaded the first time it is used.
_PACKAGES = ("broadcast", "events", "messages", "signals", "testing")

__all__ = [  # noqa: RUF022 - plain order, capitals as letters
    "Agent",
    "AlreadyResumed",
    "AlreadyStarted",
    "Ask",
    "Broadcast",
    "Crew",
    "CrewContext",
    "CrewError",
    "Delta",
    "END",
    "External",
    "ExternalSignal",
    "Group",
    "HookCall",
    "HostLacks",
    "InputRefused",
    "Interlock",
    "InterlockError",
    "ModelRefused",
    "ModelReply",
    "ModelRequest",
    "ModelUnavailable",
    "NotWaiting",
    "Pause",
    "PortError",
    "Problem",
    "PromptTooLong",
    "ReasoningBlock",
    "ReasoningDelta",
    "Refuse",
    "Result",
    "Retry",
    "Route",
    "RunError",
    "RunHandle",
    "RunNotFound",
    "RunOutput",
    "SignalError",
    "StoredRecord",
    "SubCrew",
    "TextPiece",
    "ToolContext",
    "UnreadableCrew",
    "UnsoundCrew",
    "UsageError",
    "load_crew",
    "load_host",
    "tool",
]


def __dir__() -> list[str]:
    return [*__all__, *_PACKAGES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _PACKAGES:
        return import_module(f"interlock.{name}")
    raise AttributeError(f"module 'interlock' has no attribute {name!r}")
