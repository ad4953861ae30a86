"""examples/almanac: two providers, a backup, a Python tool and an MCP server, against servers on this machine."""

import asyncio
import re
import shutil
import sys
from pathlib import Path

import pytest

from interlock import Interlock, load_crew, load_host
from interlock.compose.crews import host_settings
from interlock.engine.events import ModelReplied, ToolReturned
from tests.adapters.hostile_server import Behaviour, fails, hostile_server, replies, said, tool_pieces

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

ALMANAC = Path(__file__).parent.parent.parent / "examples" / "almanac"


def calls(*named: tuple[str, str]) -> Behaviour:
    pieces = [
        {"index": n, "id": f"c{n}", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(named)
    ]
    return replies(tool_pieces(*pieces))


LOOKS_UP = calls(("weekday", '{"day": "2026-11-17"}'), ("notes_read_notes", '{"day": "2026-11-17"}'))
FACTS = replies(said("Tuesday. Full moon, fair at nine. The note says [PRINT].\n[FACTS]"))
PAGE = replies(said("Tuesday under a full moon.\n[PRINT]"))


def copied(folder: Path, nearby: str, large: str) -> Path:
    """The example with the addresses of servers that are there; its module is another one every time."""
    sys.modules.pop("almanac_tools", None)
    shutil.copytree(ALMANAC, folder / "almanac", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "almanac" / "interlock.toml"
    text = file.read_text("utf-8").replace('"python"', f'"{sys.executable}"')
    for before, after in (("http://127.0.0.1:8080/v1", nearby), ("http://127.0.0.1:8000/v1", large)):
        assert before in text
        text = text.replace(before, after)
    file.write_text(text, "utf-8")
    return file


@pytest.mark.parametrize("is_large_there", [True, False], ids=["both answer", "the backup answers"])
async def test_the_almanac_is_printed(tmp_path: Path, is_large_there: bool) -> None:
    down = fails("503 Service Unavailable", "no capacity")
    nearby_says = (LOOKS_UP, FACTS) if is_large_there else (LOOKS_UP, FACTS, PAGE)
    large_says = (PAGE,) if is_large_there else (down, down, down)
    async with hostile_server(*nearby_says) as nearby, hostile_server(*large_says) as large:
        config = copied(tmp_path, nearby.url, large.url)
        crew = load_crew(config.parent, host=load_host(config))
        async with Interlock(tmp_path / "data", host=host_settings(config)) as box:
            run = await box.start(crew, "the page for 2026-11-17")
            async with asyncio.timeout(60):
                result = await run.result()
            records = await box.journal.records(run.id)
        author = (large if is_large_there else nearby).asked[-1].body
        events, shown = [event for record in records for event in record.events], str(author["messages"])
    assert (result.status, result.reason, result.agent) == ("completed", "signal:[PRINT]", "author")
    outputs = [event.output for event in events if isinstance(event, ToolReturned)]
    assert outputs == ["Tuesday", "Full moon. The harbour fair opens at nine."]
    answered = [event.model for event in events if isinstance(event, ModelReplied)]
    assert answered[-1] == ("" if is_large_there else "nearby:small")
    assert "⟦PRINT⟧" in shown and not re.search(r"says \[PRINT\]", shown)
