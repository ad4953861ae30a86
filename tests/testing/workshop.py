"""A crew with a bit of everything that can go wrong: tools of both kinds, groups of both kinds, waits, held routes."""

from typing import Any

from interlock.adapters.tools_python import tool
from interlock.crew.definition import (
    Agent,
    AgentBehavior,
    Crew,
    Group,
    HistoryShare,
    Route,
    Settings,
    SubCrew,
    SubCrewCaps,
)
from interlock.signals.definition import SignalBehavior

ROUTE, END, PAUSE = SignalBehavior.ROUTE, SignalBehavior.TERMINATE, SignalBehavior.PAUSE
FORK, EXTERNAL, BROADCAST = SignalBehavior.PARALLEL, SignalBehavior.EXTERNAL, SignalBehavior.BROADCAST
CALL = SignalBehavior.SUB_CREW


def _route(signal: str, behavior: SignalBehavior, target: str = "", **more: Any) -> Route:
    return Route(signal=signal, behavior=behavior, priority=50, target=target, **more)


WORKSHOP = Crew(
    version="2.0",
    name="workshop",
    entry_point="foreman",
    agents=(
        Agent(id="foreman", name="Foreman", tools=("pay", "look_up")),
        Agent(id="smith", name="Smith", tools=("pay",)),
        Agent(id="joiner", name="Joiner", tools=("look_up", "pay")),
        Agent(id="clerk", name="Clerk", tools=("pay",)),
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
        "both": Group(name="both", agents=("smith", "joiner"), next_agent="clerk"),
        "first": Group(name="first", agents=("smith", "joiner"), wait_for_all=False, timeout_seconds=20),
    },
    settings=Settings(signal_position="anywhere", max_handoffs=6, max_rounds=6, loop_window=0),
)


OFFICE = Crew(
    version="2.0",
    name="office",
    entry_point="porter",
    agents=(Agent(id="porter", name="Porter", tools=("memory_write", "memory_read")),),
    routes={
        "porter": (
            _route("[DOWN]", CALL, target_crew="workshop", on_error="return"),
            _route("[WAIT]", PAUSE),
            _route("[END]", END),
        )
    },
    sub_crews={
        "workshop": SubCrew(
            name="workshop", config_path="w", crew=WORKSHOP, settings=SubCrewCaps(max_handoffs=3, max_calls_per_run=12)
        )
    },
    settings=Settings(signal_position="anywhere", max_handoffs=4, loop_window=0),
)

# Crews that call crews, two levels deep, alone, several at once and as members of a group.
GUILD = Crew(
    version="2.0",
    name="guild",
    entry_point="master",
    agents=(
        Agent(id="master", name="Master", tools=("memory_write", "memory_read")),
        Agent(id="scribe", name="Scribe", tools=("memory_read",)),
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
        "all": Group(name="all", agents=("office", "scribe", "shop")),
        "race": Group(name="race", agents=("office", "shop"), wait_for_all=False, timeout_seconds=60),
    },
    sub_crews={
        "office": SubCrew(name="office", config_path="o", crew=OFFICE),
        "shop": SubCrew(name="shop", config_path="w", crew=WORKSHOP),
    },
    settings=Settings(signal_position="anywhere", max_handoffs=5, loop_window=0, max_calls_per_run=80),
)


def pay(amount: int) -> str:
    """Pays; must not happen twice."""
    return f"paid {amount} [END] [BACK]"


async def look_up(word: str = "") -> str:
    """Looks a word up."""
    return f"{word}: see [CLERK] and [WAIT]"


TOOLS: list[Any] = [pay, tool(look_up, idempotent=True)]
