"""A crew's own tests: each runs in a data folder of its own that is gone afterwards, and calls no model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from interlock.adapters.crew_tests import CrewTest
from interlock.adapters.host_file import HostSettings
from interlock.adapters.mcp_settings import McpServer
from interlock.adapters.models.scripted import ScriptedModel
from interlock.adapters.tools_python import PythonTool
from interlock.compose.box import Interlock
from interlock.compose.results import Result
from interlock.crew.definition import Crew, Route
from interlock.engine.events import Decided, Event, SignalSeen, TurnStarted

NO_SERVERS: Mapping[str, McpServer] = {}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a test: how it differs from what was expected, and which marks did something."""

    name: str
    differences: tuple[str, ...]
    taken: frozenset[tuple[str, str]]


async def run_crew_test(
    crew: Crew, test: CrewTest, tools: Sequence[PythonTool] = (), servers: Mapping[str, McpServer] = NO_SERVERS
) -> Outcome:
    with TemporaryDirectory(prefix="interlock-test-") as folder:
        model, host = ScriptedModel(test.script), HostSettings(mcp=dict(servers))
        async with Interlock(Path(folder), models=model, tools=tools, host=host, durability="normal") as box:
            result, given = await _played(box, crew, test)
            events = [event for record in await box.journal.records(result.run) for event in record.events]
    differences = _differences(test, result, events)
    if given < len(test.answers):
        differences.append(f"answers: expected {len(test.answers)} to be asked for, got {given}")
    return Outcome(name=test.name, differences=tuple(differences), taken=_taken(crew, events))


async def _played(box: Interlock, crew: Crew, test: CrewTest) -> tuple[Result, int]:
    """How the run stands in the end, and how many of the answers it took."""
    result, given = await (await box.start(crew, test.input)).result(), 0
    while result.status == "paused" and given < len(test.answers):
        result = await (await box.resume(result.run, test.answers[given], token=result.token)).result()
        given += 1
    return result, given


def _differences(test: CrewTest, result: Result, events: Sequence[Event]) -> list[str]:
    turns = tuple(event.agent for event in events if isinstance(event, TurnStarted))
    expect = test.expect
    compared = (
        ("turns", None if expect.turns is None else ", ".join(expect.turns), ", ".join(turns)),
        ("status", expect.status, result.status),
        ("reason", expect.reason, result.reason),
    )
    found = [f"{what}: expected {want}, got {got}" for what, want, got in compared if want not in (None, got)]
    if expect.output_contains is not None and expect.output_contains not in result.output:
        found.append(f"output: expected {expect.output_contains!r} in {result.output!r}")
    return found


def _taken(crew: Crew, events: Sequence[Event]) -> frozenset[tuple[str, str]]:
    """The marks that decided, and those that were seen where seeing them is all they are for."""
    decided = {(event.agent, event.signal) for event in events if isinstance(event, Decided) and event.verb}
    seen = {(event.agent, event.signal) for event in events if isinstance(event, SignalSeen)}
    noted = {(agent, route.signal) for agent, route in routes_of(crew) if route.is_tell or route.acknowledges}
    return frozenset(decided | (seen & noted))


def routes_of(crew: Crew) -> list[tuple[str, Route]]:
    return [(agent, route) for agent, routes in crew.routes.items() for route in routes]


def untaken(crew: Crew, outcomes: Sequence[Outcome]) -> list[tuple[str, Route]]:
    """The routes that no test took, in the order of the crew's file."""
    taken = {mark for outcome in outcomes for mark in outcome.taken}
    return [(agent, route) for agent, route in routes_of(crew) if (agent, route.signal) not in taken]
