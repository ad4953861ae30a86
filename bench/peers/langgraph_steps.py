"""A handoff a step in LangGraph: two nodes that answer with `Command`, messages kept by `add_messages`.

Its DeltaChannel (beta), which stores what was added instead of all messages, is measured too.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage  # type: ignore[import-not-found]
from langgraph.channels.delta import DeltaChannel  # type: ignore[import-not-found]
from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
from langgraph.graph import END, START, StateGraph  # type: ignore[import-not-found]
from langgraph.graph.message import add_messages  # type: ignore[import-not-found]
from langgraph.types import Command  # type: ignore[import-not-found]

from bench.harness import measure
from bench.peers import SIZES

REPLY = "x" * 183 + " [NEXT]"


class Talk(TypedDict):
    step: int
    steps: int
    messages: Annotated[list[Any], add_messages]


def joined(messages: list[Any] | None, added: list[list[Any]]) -> list[Any]:
    return [*(messages or ()), *(message for each in added for message in each)]


class DeltaTalk(TypedDict):
    step: int
    steps: int
    messages: Annotated[list[Any], DeltaChannel(joined)]


def turn(other: str, keeps: bool) -> Callable[[Any], Any]:
    def node(state: Any) -> Any:
        step = state["step"] + 1
        update: dict[str, Any] = {"step": step}
        if keeps:
            update["messages"] = [AIMessage(content=f"{step} {REPLY}", id=str(step))]
        return Command(update=update, goto=other if step < state["steps"] else END)

    return node


def graph(keeps: bool, saver: Any = None, state: Any = Talk) -> Any:
    built = StateGraph(state)
    built.add_node("a", turn("b", keeps), destinations=("b", END))
    built.add_node("b", turn("a", keeps), destinations=("a", END))
    built.add_edge(START, "a")
    return built.compile(checkpointer=saver)


def started(compiled: Any, steps: int, thread: str = "") -> None:
    config: dict[str, Any] = {"recursion_limit": steps + 10}
    if thread:
        config["configurable"] = {"thread_id": thread}
    compiled.invoke({"step": 0, "steps": steps, "messages": []}, config)


async def started_async(compiled: Any, steps: int) -> None:
    await compiled.ainvoke({"step": 0, "steps": steps, "messages": []}, {"recursion_limit": steps + 10})


def _in_new_loop(steps: int) -> None:
    asyncio.run(started_async(graph(True), steps))


def _in_new_thread(compiled: Any, steps: int, threads: Iterator[int]) -> None:
    started(compiled, steps, f"t{next(threads)}")


def report(name: str, steps: int, work: Callable[[], object], repeats: int = 3) -> None:
    cost = measure(work, steps, repeats)
    row = {"peer": f"LangGraph {version('langgraph')}", "name": name, "steps": steps}
    print(json.dumps({**row, "cpu_us": cost.cpu_us, "wall_us": cost.wall_us}), flush=True)


def main(folder: Path) -> None:
    for keeps, name in ((False, "in memory, no messages kept"), (True, "in memory, messages kept")):
        compiled = graph(keeps)
        started(compiled, 10)
        for steps in SIZES:
            report(name, steps, partial(started, compiled, steps))
    for steps in SIZES:
        report("in memory, messages kept, async", steps, partial(_in_new_loop, steps))
    for state, name in ((Talk, "durable, SqliteSaver"), (DeltaTalk, "durable, DeltaChannel and SqliteSaver")):
        with SqliteSaver.from_conn_string(str(folder / f"{state.__name__}.db")) as saver:
            compiled, threads = graph(True, saver, state), iter(range(100))
            started(compiled, 10, "warm")
            for steps in SIZES:
                report(name, steps, partial(_in_new_thread, compiled, steps, threads), repeats=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
