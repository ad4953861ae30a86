"""Cutting replies at their signal: tokens that are not generated, and what listening costs.

`saved(replies)` is for measuring it on replies of real models: how many tokens each would have gone on for.
"""

import time
from collections.abc import Sequence

from interlock.crew.definition import Agent, Crew, Route
from interlock.engine.conversation import text_tokens
from interlock.engine.listening import Listener
from interlock.engine.routing import RoutingTable
from interlock.signals.definition import SignalBehavior

CHARS = 100_000


def crew_with_marks(*marks: str) -> Crew:
    """One agent that ends its run by any of the marks."""
    routes = tuple(Route(signal=mark, behavior=SignalBehavior.TERMINATE, priority=100) for mark in marks)
    return Crew(version="2.0", name="cutting", entry_point="a", agents=(Agent(id="a", name="a"),), routes={"a": routes})


def saved(replies: Sequence[str], marks: Sequence[str] = ("[END]",)) -> tuple[int, int]:
    """Tokens of the replies by the engine's own estimate: said in full, and said up to the cut."""
    table = RoutingTable(crew_with_marks(*marks))
    full = sum(map(text_tokens, replies))
    return full, sum(text_tokens(_heard(table, reply)) for reply in replies)


def _heard(table: RoutingTable, reply: str) -> str:
    listener = Listener(table, "a")
    listener.feed(reply)
    return listener.text


def listening_ms(text: str) -> float:
    """Milliseconds of CPU to hear a text in pieces of one character."""
    listener, began = Listener(RoutingTable(crew_with_marks("[END]")), "a"), time.process_time()
    for char in text:
        listener.feed(char)
    return 1000 * (time.process_time() - began)


TEXTS = {
    "prose": "word ",
    "marks amid text": "[END] x\n",
    "marks in a fence": "```\n[END]\n```\n",
    "open brackets": "[END\n",
}


def run() -> str:
    rambling = [f"Answer {n}.\n[END]\n" + "And another thing. " * n for n in range(0, 60, 3)]
    full, cut = saved(rambling)
    lines = [f"- {name}: {listening_ms((unit * CHARS)[:CHARS]):.0f} ms" for name, unit in TEXTS.items()]
    return "\n".join(
        [
            "## Cutting replies at their signal",
            "",
            f"{len(rambling)} made-up replies that ramble on: {full} tokens in full, {cut} up to the cut.",
            f"Listening to {CHARS:,} characters, one by one:",
            "",
            *lines,
        ]
    )


if __name__ == "__main__":
    print(run())
