"""Random trees of agents and crews that delegate, query, ask people, use tools that need approval, and report, or do
not."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from interlock import tool
from interlock.adapters.crews.crew_files import read_crew
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import Host
from interlock.runtime.following import PublicEvent, public_events
from interlock.testing import Simulation, simulate


def look() -> str:
    return "nothing [END]"


@tool(needs_approval=True)
def pay(dollars: int = 1) -> str:
    return f"paid {dollars}"


TOOLS = (look, pay)
NAMES = ("ask_user", "look", "pay")

# Crews that crews delegate to, which delegate to crews.
CREWS_DEEP = 2


def a_tree(seed: int) -> dict[str, Any]:
    chance = Random(f"tree:{seed}")
    ids = [f"a{n}" for n in range(chance.randint(2, 8))]
    children: dict[str, list[str]] = {}
    for n in range(1, len(ids)):
        children.setdefault(ids[chance.randrange(n)], []).append(ids[n])
    agents: list[dict[str, Any]] = [{"id": id_, "tools": chance.sample(NAMES, chance.randint(0, 3))} for id_ in ids]
    agents[0]["is_terminal"] = True
    return {
        "version": "2.0",
        "name": f"tree-{seed}",
        "entry_point": "a0",
        "agents": agents,
        "delegation": {
            "children": children,
            "select": chance.choice(["model", "all", "all"]),
            "report_check": chance.choice(["model", "rules", "none"]),
            "ack_timeout_seconds": chance.choice([1, 30]),
            "answer_timeout_seconds": chance.choice([2, 20, 600]),
            "max_follow_ups": chance.randint(0, 2),
            "max_depth": 32,
        },
        "settings": {"max_rounds": chance.choice([3, 6, 10]), "timeout_seconds": 600},
    }


def with_crews(tree: dict[str, Any], seed: int) -> tuple[dict[str, Any], list[str]]:
    """Every second tree also delegates to crews, which are such trees themselves; and the names of those crews."""
    chance = Random(f"crews:{seed}")
    names = [f"c{n}" for n in range(chance.choice([0, 0, 1, 2]))]
    parents = [agent["id"] for agent in tree["agents"]][:2]
    for name in names:
        tree["delegation"]["children"].setdefault(chance.choice(parents), []).append(name)
    if names:
        tree["sub_crews"] = {name: {"config_path": name, "description": "a crew"} for name in names}
        tree["settings"] |= chance.choice([{}, {}, {"max_calls_per_run": 12}, {"max_tokens_per_run": 9000}])
    return tree, names


def write_crews(folder: Path, seed: int, depth: int = 0) -> None:
    """A crew below another has a seed of its own; at the third level there are agents alone."""
    folder.mkdir(exist_ok=True)
    tree, names = with_crews(a_tree(seed), seed) if depth < CREWS_DEEP else (a_tree(seed), [])
    (folder / "crew.yaml").write_bytes(msgspec.json.encode(tree))  # JSON is YAML
    for n, name in enumerate(names):
        write_crews(folder / name, 10 * seed + n + 1_000_000, depth + 1)


@cache
def crew_of(seed: int) -> CrewDefinition:
    with TemporaryDirectory() as folder:
        write_crews(Path(folder), seed)
        loaded = read_crew(folder, host=Host(tools=("look", "pay")))
    assert loaded.crew is not None
    assert loaded.is_sound, loaded.problems
    return loaded.crew


def simulated(seed: int) -> Simulation:
    return simulate(crew_of(seed), seed=seed, tools=TOOLS)


def events_of(simulation: Simulation) -> Iterator[PublicEvent]:
    """Of the run and of all below it."""
    yield from simulation.events
    for run, records in simulation.below.items():
        yield from (event for record in records for event in public_events(run, record))


def mail_of(simulation: Simulation) -> dict[str, str]:
    """What became of each message of all runs by the journals alone; empty while it is open."""
    fates: dict[str, str] = {}
    for event in events_of(simulation):
        if event["type"] == "message.sent":
            fates.setdefault(event["message"]["message_id"], "")
        elif event["type"] == "message.settled":
            fates[event["message_id"]] = event["outcome"]
    return fates
