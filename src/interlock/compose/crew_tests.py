"""The tests of a crew: each runs in a temporary data folder, and calls no model.

Rule 1: agents of sub-crews are named with their path, `alpha/x`. A test that names none of them compares the turns of
the crew itself.
Rule 2: the routes of every crew count once, even if several paths lead to it; they are named by the first path.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.mcp_settings import McpServer
from interlock.adapters.crews.crew_test_files import CrewTest
from interlock.adapters.files.run_scripts import turns_of
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.adapters.tools.python_tools import PythonTool
from interlock.compose.given.crew_like import AnyCrew, definition_of
from interlock.compose.interlock import Interlock
from interlock.compose.results import Result
from interlock.crew.definition import CrewDefinition, RouteDefinition
from interlock.engine.events import Decided, RunStarted, SignalSeen
from interlock.ids import full_name
from interlock.ports import StoredRecord

NO_SERVERS: Mapping[str, McpServer] = {}


class CrewTestResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test: differences from what it expects, and the routes that it used."""

    name: str
    differences: tuple[str, ...]
    taken: frozenset[tuple[str, str]]


async def run_crew_test(
    crew: AnyCrew,
    test: CrewTest,
    tools: Sequence[PythonTool] = (),
    servers: Mapping[str, McpServer] = NO_SERVERS,
) -> CrewTestResult:
    with TemporaryDirectory(prefix="interlock-test-") as folder:
        model, host = ScriptedModel(test.script), HostSettings(mcp=dict(servers))
        async with Interlock(Path(folder), models=model, tools=tools, host=host, durability="normal") as box:
            result, given = await _run_test(box, crew, test)
            tree = await box.journal.tree(result.run)
    differences = _differences(test, result, turns_of(tree))
    if given < len(test.answers):
        differences.append(f"answers: expected {len(test.answers)} to be asked for, got {given}")
    return CrewTestResult(
        name=test.name, differences=tuple(differences), taken=_routes_taken(definition_of(crew), tree)
    )


async def _run_test(box: Interlock, crew: AnyCrew, test: CrewTest) -> tuple[Result, int]:
    """The result of the run, and the number of answers that it used."""
    result, given = await (await box.start(crew, test.input)).result(), 0
    while result.status == "paused" and given < len(test.answers):
        result = await (await box.resume(result.run, test.answers[given], token=result.token)).result()
        given += 1
    return result, given


def _differences(test: CrewTest, result: Result, turns: Sequence[str]) -> list[str]:
    expect = test.expect
    if not any("/" in turn for turn in expect.turns or ()):
        turns = [turn for turn in turns if "/" not in turn]
    compared = (
        ("turns", None if expect.turns is None else ", ".join(expect.turns), ", ".join(turns)),
        ("status", expect.status, result.status),
        ("reason", expect.reason, result.reason),
    )
    found = [f"{what}: expected {want}, got {got}" for what, want, got in compared if want not in (None, got)]
    if expect.output_contains is not None and expect.output_contains not in result.output:
        found.append(f"output: expected {expect.output_contains!r} in {result.output!r}")
    return found


def _routes_taken(crew: CrewDefinition, tree: Sequence[StoredRecord]) -> frozenset[tuple[str, str]]:
    """Signals that decided, and signals that only notify or acknowledge and were seen."""
    decided, seen = set(), set()
    names: dict[str, tuple[str, ...]] = {}
    for stored in tree:
        for event in stored.record.events:
            if isinstance(event, RunStarted):
                names[stored.run] = _first_way(crew, event.path)
            elif isinstance(event, Decided) and event.verb:
                won = (event.signal, *(each.signal for each in event.candidates if each.outcome == "joined"))
                decided |= {(full_name(names[stored.run], event.agent), signal) for signal in won}
            elif isinstance(event, SignalSeen):
                seen.add((full_name(names[stored.run], event.agent), event.signal))
    noted = {(agent, route.signal) for agent, route in routes_of(crew) if route.is_tell or route.acknowledges}
    return frozenset(decided | (seen & noted))


def _ways(crew: CrewDefinition) -> dict[int, tuple[tuple[str, ...], CrewDefinition]]:
    """Each crew of the tree, by identity, with the first path to it."""
    found: dict[int, tuple[tuple[str, ...], CrewDefinition]] = {id(crew): ((), crew)}
    ahead: list[tuple[tuple[str, ...], CrewDefinition]] = [((), crew)]
    for path, each in ahead:
        for name, sub in each.sub_crews.items():
            if sub.crew is not None and id(sub.crew) not in found:
                found[id(sub.crew)] = ((*path, name), sub.crew)
                ahead.append(found[id(sub.crew)])
    return found


def _first_way(crew: CrewDefinition, path: Sequence[str]) -> tuple[str, ...]:
    inner = crew
    for name in path:
        called = inner.sub_crews[name].crew
        assert called is not None, "a sound crew has its sub-crews"
        inner = called
    return _ways(crew)[id(inner)][0]


def routes_of(crew: CrewDefinition) -> list[tuple[str, RouteDefinition]]:
    """The routes of the crew and of its sub-crews, each with its agent."""
    return [
        (full_name(path, agent), route)
        for path, each in _ways(crew).values()
        for agent, routes in each.routes.items()
        for route in routes
    ]


def routes_not_taken(crew: CrewDefinition, outcomes: Sequence[CrewTestResult]) -> list[tuple[str, RouteDefinition]]:
    """The routes that no test used, in the order of the crew's file."""
    taken = {mark for outcome in outcomes for mark in outcome.taken}
    return [(agent, route) for agent, route in routes_of(crew) if (agent, route.signal) not in taken]
