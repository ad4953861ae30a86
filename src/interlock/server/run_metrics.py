"""Counts events of runs, from the records that this process stores.

The start times of calls in progress are kept for at most `OPEN_RUNS_MAX` runs.
"""

from collections.abc import Callable
from typing import NamedTuple

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import (
    Event,
    ModelCalled,
    ModelCallLost,
    ModelCancelled,
    ModelFailed,
    ModelReplied,
    RunFinished,
    RunPaused,
    RunStarted,
    ToolCalled,
    ToolReturned,
    Usage,
)
from interlock.ports import StoredRecord
from interlock.server.metrics import CALL_BUCKETS, Metrics, reason_group

# Returns the crew of a run that this process drives.
CrewOf = Callable[[str], CrewDefinition | None]

UNKNOWN = "unknown"
MICROS = 1_000_000

# Runs with calls in progress; if another process continues one, this process gets no more records of it.
OPEN_RUNS_MAX = 10_000


class _OpenCall(NamedTuple):
    """A model call or a tool call in progress. `name` is a tool, or a model that is not the agent's own."""

    agent: str
    name: str
    at: int


class RunMetrics:
    """An observer of records that counts."""

    def __init__(self, metrics: Metrics, crew_of: CrewOf) -> None:
        self._crew_of = crew_of
        self._open: dict[str, dict[str, _OpenCall]] = {}
        counter = metrics.counter
        self._started = counter("runs_started_total", "Runs started, those of sub-crews too.", "crew")
        self._finished = counter("runs_total", "Runs that are over.", "crew", "status", "reason")
        self._paused = counter("runs_paused_total", "Times that a run paused.", "crew", "reason")
        self._calls = counter("model_calls_total", "Model calls that are over.", "crew", "model", "outcome")
        self._retries = counter("model_retries_total", "Model calls made again after a failure.", "crew", "model")
        self._tokens = counter("model_tokens_total", "Tokens of model calls.", "crew", "model", "direction")
        self._cached = counter(
            "model_cached_tokens_total", "Input tokens read from caches or written to them.", "crew", "model", "kind"
        )
        self._reasoned = counter("model_reasoning_tokens_total", "Output tokens of reasoning.", "crew", "model")
        self._cost = counter("model_cost_dollars_total", "Cost of model calls that have a price.", "crew", "model")
        self._unpriced = counter("model_unpriced_calls_total", "Model calls without a price.", "crew", "model")
        self._seconds = metrics.histogram(
            "model_call_seconds", "Time that model calls took.", CALL_BUCKETS, "crew", "model"
        )
        self._tools = counter("tool_calls_total", "Tool calls that are over.", "tool", "outcome")

    def __call__(self, stored: StoredRecord) -> None:
        for event in stored.record.events:
            match event:
                case RunStarted():
                    self._started.add(event.crew)
                case ModelCalled():
                    self._open_call(stored, event.call, _OpenCall(event.agent, event.model, stored.record.at))
                    if event.attempt:
                        self._retries.add(*self._crew_and_model(stored.run, event.agent, event.model))
                case ToolCalled():
                    self._open_call(stored, event.call, _OpenCall(event.agent, event.name, stored.record.at))
                case _:
                    self._count_end(stored, event)

    def _count_end(self, stored: StoredRecord, event: Event) -> None:
        match event:
            case ModelReplied() | ModelFailed():
                self._count_model(stored, event)
            case ModelCallLost():
                crew, model = self._crew_and_model(stored.run, event.agent, event.model)
                self._calls.add(crew, model, "lost")
                self._count_usage(crew, model, event.usage)
            case ModelCancelled():
                call = self._close_call(stored.run, event.call)
                backup = call.name if call is not None else ""
                self._calls.add(*self._crew_and_model(stored.run, event.agent, backup), "cancelled")
            case ToolReturned():
                self._count_tool(stored.run, event)
            case RunPaused():
                self._paused.add(self._crew_name(stored.run), reason_group(event.reason))
            case RunFinished():
                self._finished.add(self._crew_name(stored.run), event.status, reason_group(event.reason))
                self._open.pop(stored.run, None)
            case _:
                return

    def _count_model(self, stored: StoredRecord, event: ModelReplied | ModelFailed) -> None:
        call = self._close_call(stored.run, event.call)
        crew, model = self._crew_and_model(stored.run, event.agent, event.model)
        self._calls.add(crew, model, "ok" if isinstance(event, ModelReplied) else "failed")
        if call is not None:
            self._seconds.add(max(0, stored.record.at - call.at) / 1000, crew, model)
        self._count_usage(crew, model, event.usage)

    def _count_usage(self, crew: str, model: str, usage: Usage) -> None:
        self._tokens.add(crew, model, "input", by=usage.input_tokens)
        self._tokens.add(crew, model, "output", by=usage.output_tokens)
        self._cached.add(crew, model, "read", by=usage.cache_read_tokens)
        self._cached.add(crew, model, "write", by=usage.cache_write_tokens)
        self._reasoned.add(crew, model, by=usage.reasoning_tokens)
        self._cost.add(crew, model, by=usage.cost_micros / MICROS)
        self._unpriced.add(crew, model, by=usage.unpriced_calls)

    def _count_tool(self, run: str, event: ToolReturned) -> None:
        """The label of a tool. A model may call a tool that does not exist: such names are not labels."""
        call, crew = self._close_call(run, event.call), self._crew_of(run)
        known = {tool for agent in crew.agents for tool in agent.tools} if crew is not None else set()
        name = call.name if call is not None and call.name in known else UNKNOWN
        self._tools.add(name, "ok" if event.ok else "failed")

    def _open_call(self, stored: StoredRecord, key: str, call: _OpenCall) -> None:
        if stored.run not in self._open and len(self._open) >= OPEN_RUNS_MAX:
            del self._open[next(iter(self._open))]
        self._open.setdefault(stored.run, {})[key] = call

    def _close_call(self, run: str, key: str) -> _OpenCall | None:
        """The start of a call; None if another process started it."""
        calls = self._open.get(run, {})
        found = calls.pop(key, None)
        if not calls:
            self._open.pop(run, None)
        return found

    def _crew_name(self, run: str) -> str:
        crew = self._crew_of(run)
        return crew.name if crew is not None else UNKNOWN

    def _crew_and_model(self, run: str, agent: str, backup: str) -> tuple[str, str]:
        crew = self._crew_of(run)
        agents = crew.agents if crew is not None else ()
        primary = next((each.primary for each in agents if each.id == agent), None)
        return self._crew_name(run), backup or (primary.name if primary is not None else UNKNOWN)
