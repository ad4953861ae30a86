"""Log lines about runs, from stored records: starts, waits, failures and ends, with their reasons.

Rule 1: the lines of the signal protocol keep the words of the seeds; they have their own logger.
Rule 2: a pause is logged by the run that asks a person, not by its callers again.
Rule 3: an operator sees warnings (a provider failed, a limit was reached) and errors (a run failed).
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from interlock.engine.events import (
    CancelRequested,
    Decided,
    Event,
    GroupStarted,
    HandedOver,
    LimitReached,
    ModelFailed,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    SignalSeen,
    ToolReturned,
    Warned,
)
from interlock.engine.flow.parking import PARKED, SET_ASIDE
from interlock.ids import is_below, run_of
from interlock.ports import StoredRecord
from interlock.signals.registry import SignalRegistry
from interlock.signals.report import emission_line, routing_line

# The signals of a run's crew, while this process drives the run.
RegistryOf = Callable[[str], SignalRegistry | None]

RUNS = "interlock.runs"
SIGNALS = "interlock.signals"

_runs = logging.getLogger(RUNS)
_signals = logging.getLogger(SIGNALS)


class RunLog:
    """An observer that logs."""

    def __init__(self, registry_of: RegistryOf) -> None:
        self._registry_of = registry_of

    def __call__(self, stored: StoredRecord) -> None:
        for event in stored.record.events:
            if (fact := _log_entry(stored.run, event)) is not None:
                level, message, fields = fact
                _runs.log(level, "%s", message, extra={"fields": {"run": stored.run, **fields}})
            if _signals.isEnabledFor(logging.INFO):
                for line in self._signal_lines(stored.run, event):
                    _signals.info("%s", line, extra={"fields": {"run": stored.run}})

    def _signal_lines(self, run: str, event: Event) -> Iterator[str]:
        match event:
            case SignalSeen():
                registry = self._registry_of(run)
                definition = registry.get(event.signal) if registry is not None else None
                if definition is not None:
                    yield emission_line(event.agent, definition, event.method)
            case HandedOver():
                yield f"[ROUTING] {event.origin} -> {event.to} (signal: {event.signal})"
                if event.signal:
                    yield routing_line(event.origin, event.to, event.signal)
            case Decided() if event.verb == "end" and event.signal:
                yield f"[ROUTING] {event.agent} -> TERMINATE (signal: {event.signal})"
            case GroupStarted():
                yield f"[ROUTING] group {event.group} -> {', '.join(event.members)}"
            case RunPaused() if event.reason not in (PARKED, SET_ASIDE) and not is_below(run_of(event.token), run):
                yield f"[PAUSE:{event.agent}] Waiting for user input"
            case Warned() if event.code == "deprecated-signal":
                yield f"[SIGNAL-WARNING] {event.message}"
            case RunFinished() if event.reason.startswith("signal:"):
                yield f"[TERMINATE] Workflow ended by signal: {event.reason.removeprefix('signal:')}"
            case _:
                return


def _log_entry(run: str, event: Event) -> tuple[int, str, dict[str, Any]] | None:
    """Level, message and fields of an event of a run; None if it is not logged."""
    match event:
        case RunStarted() | RunResumed() | CancelRequested():
            return _command_entry(run, event)
        case RunPaused():
            fields = {"agent": event.agent, "reason": event.reason}
            return logging.INFO, f"run {run} paused at {event.agent}: {event.reason}", fields
        case RunFinished():
            return _finish_entry(run, event)
        case ModelFailed() | ToolReturned(ok=False):
            return _failure_entry(run, event)
        case LimitReached():
            message = f"run {run} reached a limit: {event.message or event.limit}"
            return logging.WARNING, message, {"limit": event.limit}
        case Warned():
            return logging.WARNING, f"run {run}: {event.message} ({event.code})", {"code": event.code}
        case _:
            return None


def _command_entry(run: str, event: RunStarted | RunResumed | CancelRequested) -> tuple[int, str, dict[str, Any]]:
    by = {"by": event.by} if event.by else {}
    match event:
        case RunStarted():
            return logging.INFO, f"run {run} of crew {event.crew} started", {"crew": event.crew, **by}
        case RunResumed():
            return logging.INFO, f"run {run} resumed", by
        case _:
            return logging.INFO, f"run {run} is being cancelled", by


def _finish_entry(run: str, event: RunFinished) -> tuple[int, str, dict[str, Any]]:
    detail = f" ({event.detail})" if event.detail else ""
    fields = {"status": event.status, "reason": event.reason, "agent": event.agent}
    level = logging.ERROR if event.status == "failed" else logging.INFO
    return level, f"run {run} {event.status}: {event.reason}{detail}", fields


def _failure_entry(run: str, event: ModelFailed | ToolReturned) -> tuple[int, str, dict[str, Any]]:
    """A failed call. A provider that fails concerns the operator; a tool that refuses is often the model's mistake."""
    if isinstance(event, ToolReturned):
        return logging.INFO, f"run {run}: a tool call failed: {event.output}", {"call": event.call}
    fields = {"agent": event.agent, "call": event.call, **({"model": event.model} if event.model else {})}
    return logging.WARNING, f"run {run}: the model call of {event.agent} failed: {event.error}", fields
