"""A handoff a step in pydantic-graph: two nodes that return each other. It keeps no journal, and nothing is stored."""

import asyncio
import json
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext

from bench.harness import measure_async
from bench.peers import SIZES

REPLY = "x" * 183 + " [NEXT]"


@dataclass
class Talk:
    steps: int
    keeps: bool
    step: int = 0
    messages: list[str] = field(default_factory=list)

    def speak(self) -> bool:
        """Counts a step; True if it was the last one."""
        self.step += 1
        if self.keeps:
            self.messages.append(f"{self.step} {REPLY}")
        return self.step >= self.steps


@dataclass
class Ann(BaseNode[Talk, None, int]):
    async def run(self, ctx: GraphRunContext[Talk, None]) -> "Bob | End[int]":
        return End(ctx.state.step) if ctx.state.speak() else Bob()


@dataclass
class Bob(BaseNode[Talk, None, int]):
    async def run(self, ctx: GraphRunContext[Talk, None]) -> "Ann | End[int]":
        return End(ctx.state.step) if ctx.state.speak() else Ann()


def graph() -> Any:
    built = GraphBuilder(state_type=Talk, output_type=int, auto_instrument=False)
    built.add(built.edge_from(built.start_node).to(Ann), built.node(Ann), built.node(Bob))
    return built.build()


async def main() -> None:
    made = graph()
    for keeps, name in ((False, "in memory, no messages kept"), (True, "in memory, messages kept")):
        for steps in SIZES:

            async def talk(steps: int = steps, keeps: bool = keeps) -> None:
                assert await made.run(state=Talk(steps, keeps), inputs=Ann()) == steps

            cost = await measure_async(talk, steps, repeats=3)
            row = {"peer": f"pydantic-graph {version('pydantic-graph')}", "name": name, "steps": steps}
            print(json.dumps({**row, "cpu_us": cost.cpu_us, "wall_us": cost.wall_us}), flush=True)


if __name__ == "__main__":
    Path(sys.argv[1])  # nothing is stored
    asyncio.run(main())
