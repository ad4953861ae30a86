"""A handoff a step in LangGraph: two nodes that answer with `Command`, messages kept by `add_messages`."""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage  # type: ignore[import-not-found]
from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
from langgraph.graph import END, START, StateGraph  # type: ignore[import-not-found]
from langgraph.graph.message import add_messages  # type: ignore[import-not-found]
from langgraph.types import Command  # type: ignore[import-not-found]

from bench.harness import measure

REPLY = "x" * 183 + " [NEXT]"


class Talk(TypedDict):
    step: int
    steps: int
    messages: Annotated[list[Any], add_messages]


def turn(other: str, keeps: bool) -> Callable[[Talk], Any]:
    def node(state: Talk) -> Any:
        step = state["step"] + 1
        update: dict[str, Any] = {"step": step}
        if keeps:
            update["messages"] = [AIMessage(content=f"{step} {REPLY}")]
        return Command(update=update, goto=other if step < state["steps"] else END)

    return node


def graph(keeps: bool, saver: Any = None) -> Any:
    built = StateGraph(Talk)
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


def report(name: str, steps: int, work: Callable[[], object]) -> None:
    cost = measure(work, steps, repeats=3)
    row = {"peer": f"LangGraph {version('langgraph')}", "name": name, "steps": steps}
    print(json.dumps({**row, "cpu_us": cost.cpu_us, "wall_us": cost.wall_us}), flush=True)


def main(folder: Path) -> None:
    for keeps, name in ((False, "in memory, no messages kept"), (True, "in memory, messages kept")):
        compiled = graph(keeps)
        started(compiled, 10)
        report(name, 300, partial(started, compiled, 300))
    report("in memory, messages kept, async", 300, lambda: asyncio.run(started_async(graph(True), 300)))
    with SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        compiled, threads = graph(True, saver), iter(range(100))
        started(compiled, 10, "warm")
        report("durable, SqliteSaver", 300, lambda: started(compiled, 300, f"t{next(threads)}"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
