"""A crew with a bit of everything that can go wrong: tools of both kinds, groups of both kinds, waits, held routes."""

from typing import Any

import msgspec

from interlock.adapters.tools.python_tools import tool
from interlock.crew.definition import (
    AgentBehavior,
    AgentDefinition,
    CrewDefinition,
    CrewSettings,
    GroupDefinition,
    HistoryShare,
    RouteDefinition,
    SubCrewCaps,
    SubCrewDefinition,
)
from interlock.signals.definition import SignalBehavior

ROUTE, END, PAUSE = SignalBehavior.ROUTE, SignalBehavior.TERMINATE, SignalBehavior.PAUSE
FORK, EXTERNAL, BROADCAST = SignalBehavior.PARALLEL, SignalBehavior.EXTERNAL, SignalBehavior.BROADCAST
CALL = SignalBehavior.SUB_CREW


def _route(signal: str, behavior: SignalBehavior, target: str = "", **more: Any) -> RouteDefinition:
    return RouteDefinition(signal=signal, behavior=behavior, priority=50, target=target, **more)


WORKSHOP = CrewDefinition(
    version="2.0",
    name="workshop",
    entry_point="foreman",
    agents=(
        AgentDefinition(id="foreman", name="Foreman", tools=("pay", "look_up")),
        AgentDefinition(id="smith", name="Smith", tools=("pay",)),
        AgentDefinition(id="joiner", name="Joiner", tools=("look_up", "pay")),
        AgentDefinition(id="clerk", name="Clerk", tools=("pay",)),
    ),
    routes={
        "foreman": (
            _route("[BOTH]", FORK, "both"),
            _route("[FIRST]", FORK, "first"),
            _route("[CLERK]", ROUTE, "clerk"),
            _route("[TELL]", BROADCAST),
        ),
        "clerk": (
            _route("[WAIT]", PAUSE),
            _route("[BACK]", ROUTE, "foreman"),
            _route("[CALL]", EXTERNAL, pause=True),
            _route("[END]", END),
        ),
    },
    behaviors={"foreman": AgentBehavior(auto_route=True), "clerk": AgentBehavior(wait_for_signal=True)},
    groups={
        "both": GroupDefinition(name="both", agents=("smith", "joiner"), next_agent="clerk"),
        "first": GroupDefinition(name="first", agents=("smith", "joiner"), wait_for_all=False, timeout_seconds=20),
    },
    settings=CrewSettings(signal_position="anywhere", max_handoffs=6, max_rounds=6, loop_window=0),
)


WORKSHOP_WITH_BUDGETS = msgspec.structs.replace(
    WORKSHOP,
    settings=msgspec.structs.replace(WORKSHOP.settings, max_tokens_per_run=10**8, max_tokens_per_day=10**9),
)


OFFICE = CrewDefinition(
    version="2.0",
    name="office",
    entry_point="porter",
    agents=(AgentDefinition(id="porter", name="Porter", tools=("memory_write", "memory_read")),),
    routes={
        "porter": (
            _route("[DOWN]", CALL, target_crew="workshop", on_error="return"),
            _route("[WAIT]", PAUSE),
            _route("[END]", END),
        )
    },
    sub_crews={
        "workshop": SubCrewDefinition(
            name="workshop", config_path="w", crew=WORKSHOP, settings=SubCrewCaps(max_handoffs=3, max_calls_per_run=12)
        )
    },
    settings=CrewSettings(signal_position="anywhere", max_handoffs=4, loop_window=0),
)

# Crews that call crews, two levels deep, alone, several at once and as members of a group.
GUILD = CrewDefinition(
    version="2.0",
    name="guild",
    entry_point="master",
    agents=(
        AgentDefinition(id="master", name="Master", tools=("memory_write", "memory_read")),
        AgentDefinition(id="scribe", name="Scribe", tools=("memory_read",)),
    ),
    routes={
        "master": (
            _route("[OFFICE]", CALL, target_crew="office", on_error="return", context=HistoryShare(history=2)),
            _route("[SHOP]", CALL, target_crew="shop", on_error="scribe"),
            _route("[STRICT]", CALL, target_crew="office"),
            _route("[ALL]", FORK, "all"),
            _route("[RACE]", FORK, "race"),
            _route("[WAIT]", PAUSE),
            _route("[END]", END),
        ),
        "scribe": (_route("[BACK]", ROUTE, "master"), _route("[END]", END)),
    },
    groups={
        "all": GroupDefinition(name="all", agents=("office", "scribe", "shop")),
        "race": GroupDefinition(name="race", agents=("office", "shop"), wait_for_all=False, timeout_seconds=60),
    },
    sub_crews={
        "office": SubCrewDefinition(name="office", config_path="o", crew=OFFICE),
        "shop": SubCrewDefinition(name="shop", config_path="w", crew=WORKSHOP),
    },
    settings=CrewSettings(signal_position="anywhere", max_handoffs=5, loop_window=0, max_calls_per_run=80),
)


def pay(amount: int) -> str:
    """Pays; must not happen twice."""
    return f"paid {amount} [END] [BACK]"


async def look_up(word: str = "") -> str:
    """Looks a word up."""
    return f"{word}: see [CLERK] and [WAIT]"


TOOLS: list[Any] = [pay, tool(look_up, idempotent=True)]
