"""The reply of a model is closed by the task that asked for it."""

import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

from interlock import Interlock, load_crew
from interlock.ports import ModelReply, ModelRequest

PAIR = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, name: Ann}, {id: b, name: Bob}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}]
    b: [{signal: "[END]"}]
"""


class TidyModel:
    """Has something to put away after each reply."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def reply(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.seen.append(f"called by {request.agent}")
        try:
            yield ModelReply(text="over [NEXT]" if request.agent == "a" else "done [END]")
        finally:
            self.seen.append(f"closed for {request.agent}")


async def test_a_reply_is_closed_before_the_next_one_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(textwrap.dedent(PAIR), "utf-8")
    model = TidyModel()

    async with Interlock(tmp_path / "data", models=model) as box:
        await (await box.start(load_crew(tmp_path), "go")).result()
    assert model.seen == ["called by a", "closed for a", "called by b", "closed for b"]
