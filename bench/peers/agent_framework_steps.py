"""A handoff a step in Microsoft's agent-framework: two executors of a workflow, with and without its checkpoints."""

import asyncio
import json
import sys
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from agent_framework import (  # type: ignore[import-not-found]
    Executor,
    FileCheckpointStorage,
    WorkflowBuilder,
    WorkflowContext,
    handler,
)

from bench.harness import measure_async
from bench.peers import SIZES

REPLY = "x" * 183 + " [NEXT]"


class Speaker(Executor):  # type: ignore[misc]
    @handler  # type: ignore[untyped-decorator]
    async def speak(self, talk: list[Any], ctx: WorkflowContext[list[Any], int]) -> None:
        steps, step, messages = talk
        if messages is not None:
            messages = [*messages, f"{step} {REPLY}"]
        if step + 1 >= steps:
            await ctx.yield_output(step + 1)
        else:
            await ctx.send_message([steps, step + 1, messages])


def workflow(steps: int, storage: Any = None) -> Any:
    ann, bob = Speaker(id="a"), Speaker(id="b")
    builder = WorkflowBuilder(
        max_iterations=steps + 10, start_executor=ann, checkpoint_storage=storage, output_from="all"
    )
    return builder.add_edge(ann, bob).add_edge(bob, ann).build()


async def talk(steps: int, *, keeps: bool, storage: Any = None) -> None:
    result = await workflow(steps, storage).run([steps, 0, [] if keeps else None])
    assert result.get_outputs() == [steps], result.get_outputs()


async def report(name: str, steps: int, work: Any, repeats: int = 3) -> None:
    cost = await measure_async(work, steps, repeats)
    row = {"peer": f"agent-framework {version('agent-framework-core')}", "name": name, "steps": steps}
    print(json.dumps({**row, "cpu_us": cost.cpu_us, "wall_us": cost.wall_us}), flush=True)


async def main(folder: Path) -> None:
    folders = count()
    for steps in SIZES:
        await report("in memory, no messages kept", steps, lambda steps=steps: talk(steps, keeps=False))
    for steps in SIZES:
        await report("in memory, messages kept", steps, lambda steps=steps: talk(steps, keeps=True))
    for steps in SIZES:

        def stored(steps: int = steps) -> Any:
            storage = FileCheckpointStorage(str(folder / f"checkpoints-{next(folders)}"))
            return talk(steps, keeps=True, storage=storage)

        await report("durable, FileCheckpointStorage", steps, stored, repeats=1)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
