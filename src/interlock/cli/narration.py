"""Events with what a reader wants beside them: the model that replied, the tool that returned, what a person said.

Rule: programs get events as they are; this is for lines that people read.
"""

from collections.abc import Callable
from typing import Any

from interlock.crew.definition import Agent, Crew
from interlock.ids import unnumbered

NamesModel = Callable[[Agent], str]


class Narrator:
    """Adds to each event what earlier ones said. Of calls and questions only those that are open are kept."""

    def __init__(self, crew: Crew, model_of: NamesModel) -> None:
        self._crew, self._model_of = crew, model_of
        self._tools: dict[tuple[str, str], str] = {}
        self._messages: set[str] = set()

    def tell(self, event: dict[str, Any]) -> dict[str, Any]:
        match event["type"]:
            case "tool.called":
                self._tools[event["run"], event["call"]] = event["name"]
            case "tool.returned":
                return {**event, "name": self._tools.pop((event["run"], event["call"]), "")}
            case "input.requested" if event.get("message_id"):
                self._messages.add(event["token"])
            case "run.resumed" if event.get("token") in self._messages:
                self._messages.discard(event["token"])
                return {**event, "input": ""}  # it is told as a message
            case "model.replied" if not event.get("model"):
                return {**event, "model": self._named(tuple(event.get("path", ())), event["agent"])}
            case _:
                pass
        return event

    def _named(self, path: tuple[str, ...], agent: str) -> str:
        crew: Crew | None = self._crew
        for name in path:
            sub = crew.sub_crews.get(unnumbered(name)) if crew is not None else None
            crew = sub.crew if sub is not None else None
        found = crew.agent(agent) if crew is not None else None
        return self._model_of(found) if found is not None else ""
