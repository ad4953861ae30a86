"""A crew with a bit of everything that can go wrong: tools of both kinds, groups of both kinds, waits, held routes."""

from typing import Any

from interlock.adapters.tools_python import tool
from interlock.crew.definition import Agent, AgentBehavior, Crew, Group, Route, Settings
from interlock.signals.definition import SignalBehavior

ROUTE, END, PAUSE = SignalBehavior.ROUTE, SignalBehavior.TERMINATE, SignalBehavior.PAUSE
FORK, EXTERNAL, BROADCAST = SignalBehavior.PARALLEL, SignalBehavior.EXTERNAL, SignalBehavior.BROADCAST


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


def pay(amount: int) -> str:
    """Pays; must not happen twice."""
    return f"paid {amount} [END] [BACK]"


async def look_up(word: str = "") -> str:
    """Looks a word up."""
    return f"{word}: see [CLERK] and [WAIT]"


TOOLS: list[Any] = [pay, tool(look_up, idempotent=True)]
