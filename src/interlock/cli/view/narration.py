"""Adds to events what a reader needs: the model of a reply, the tool of a result, the attempt of a failed call.

Rule: programs get events unchanged; this is for lines that people read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.engine.turns.model_calls import RETRIES_MAX
from interlock.ids import without_number

ModelNameOf = Callable[[AgentDefinition], str]


class NamedCall(NamedTuple):
    """A tool call as a reader sees it."""

    tool: str
    arguments: Any


NO_CALL = NamedCall("", None)

# By run and call.
OpenCalls = dict[tuple[str, str], NamedCall]


class EventAnnotator:
    """Annotates events with fields of earlier ones. Keeps only open calls and questions.

    `tools` are the open tool calls; they outlive a watch that a question interrupts.
    """

    def __init__(self, crew: CrewDefinition, model_of: ModelNameOf, tools: "OpenCalls | None" = None) -> None:
        self._crew, self._model_of = crew, model_of
        self._tools: OpenCalls = {} if tools is None else tools
        self._decided: dict[str, NamedCall] = {}  # by run: the call that was just decided about
        self._attempts: dict[tuple[str, str], int] = {}
        self._messages: set[str] = set()

    def annotate_event(self, event: dict[str, Any]) -> dict[str, Any]:
        match event["type"]:
            case "tool.called":
                return self._with_repetition(event)
            case "tool.decided" | "hook.decided":
                self._decided[event["run"]] = self._tools.get((event["run"], event["call"]), NO_CALL)
            case "tool.returned":
                self._decided.pop(event["run"], None)  # it was denied
                return {**event, "name": self._tools.pop((event["run"], event["call"]), NO_CALL).tool}
            case "model.called":
                self._attempts[event["run"], event["call"]] = event.get("attempt", 0)
            case "model.failed":
                return self._with_attempt(event)
            case "input.requested" if event.get("message_id"):
                self._messages.add(event["token"])
            case "run.resumed" if event.get("token") in self._messages:
                self._messages.discard(event["token"])
                return {**event, "input": ""}  # it is shown as a message
            case "model.replied" | "model.cancelled":
                self._attempts.pop((event["run"], event["call"]), None)
                if event.get("model") or event["type"] != "model.replied":
                    return event
                return {**event, "model": self._model_name(tuple(event.get("path", ())), event["agent"])}
            case _:
                pass
        return event

    def _with_repetition(self, event: dict[str, Any]) -> dict[str, Any]:
        """Marks a call that is ordered again as it was, because it was decided about: a reader has seen it."""
        call = NamedCall(event["name"], event["arguments"])
        self._tools[event["run"], event["call"]] = call
        return {**event, "again": True} if self._decided.pop(event["run"], NO_CALL) == call else event

    def _with_attempt(self, event: dict[str, Any]) -> dict[str, Any]:
        """The number of the attempt, and the wait before the next one unless the provider sets it."""
        attempt = self._attempts.pop((event["run"], event["call"]), None)
        crew = self._crew_at(tuple(event.get("path", ())))
        if attempt is None or crew is None:
            return event
        if not event.get("retry") or attempt >= RETRIES_MAX or event.get("retry_after_ms"):
            return {**event, "attempt": attempt}
        wait = min(
            crew.settings.retry_backoff_min_millis * 2**attempt, int(crew.settings.retry_backoff_max_seconds * 1000)
        )
        return {**event, "attempt": attempt, "retry_ms": wait}

    def _model_name(self, path: tuple[str, ...], agent: str) -> str:
        crew = self._crew_at(path)
        found = crew.agent(agent) if crew is not None else None
        return self._model_of(found) if found is not None else ""

    def _crew_at(self, path: tuple[str, ...]) -> CrewDefinition | None:
        crew: CrewDefinition | None = self._crew
        for name in path:
            sub = crew.sub_crews.get(without_number(name)) if crew is not None else None
            crew = sub.crew if sub is not None else None
        return crew
