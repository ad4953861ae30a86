"""Runs of one crew in one process share what depends on the crew alone."""

from collections.abc import AsyncIterator
from pathlib import Path

from interlock import Interlock, load_crew
from interlock.ports import ModelReply, ModelRequest

CREW = """\
version: "2.0"
name: one
entry_point: a
agents: [{id: a, system_prompt: You are the only one., is_terminal: true}]
"""


class SystemCollector:
    def __init__(self) -> None:
        self.systems: list[str] = []

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.systems.append(request.system)
        yield ModelReply(text="done")


async def test_runs_of_one_crew_get_the_same_instructions_built_once(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    crew, model = load_crew(tmp_path), SystemCollector()
    async with Interlock(tmp_path / "data", models=model) as box:
        for _ in range(2):
            await (await box.start(crew, "go")).result()
    first, second = model.systems
    assert first.startswith("You are the only one.")
    assert first is second
