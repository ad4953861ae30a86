"""Random trees of agents that delegate, query, ask people, use tools that need approval, and report, or do not."""

from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from interlock import tool
from interlock.adapters.crew_files import read_crew
from interlock.crew.definition import Crew
from interlock.crew.host import Host
from interlock.testing import Simulation, simulate


def look() -> str:
    return "nothing [END]"


@tool(needs_approval=True)
def pay(dollars: int = 1) -> str:
    return f"paid {dollars}"


TOOLS = (look, pay)
NAMES = ("ask_user", "look", "pay")


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


@cache
def crew_of(seed: int) -> Crew:
    with TemporaryDirectory() as folder:
        (Path(folder) / "crew.yaml").write_bytes(msgspec.json.encode(a_tree(seed)))  # JSON is YAML
        loaded = read_crew(folder, host=Host(tools=("look", "pay")))
    assert loaded.crew is not None
    assert loaded.is_sound, loaded.problems
    return loaded.crew


def simulated(seed: int) -> Simulation:
    return simulate(crew_of(seed), seed=seed, tools=TOOLS)


def mail_of(simulation: Simulation) -> dict[str, str]:
    """What became of each message by the journal alone; empty while it is open."""
    fates: dict[str, str] = {}
    for event in simulation.events:
        if event["type"] == "message.sent":
            fates.setdefault(event["message"]["message_id"], "")
        elif event["type"] == "message.settled":
            fates[event["message_id"]] = event["outcome"]
    return fates
