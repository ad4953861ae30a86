"""Finding 1.8: `resume` of a run whose question's deadline has passed says so, and shows the rest."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from interlock import Interlock, load_crew
from interlock.cli.main import interlock
from interlock.errors import NotWaiting
from interlock.testing import Answer, ManualClock, ScriptedModel, ToolCall

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, tools: [ask_user]}]
routing: {signals: {a: [{signal: "[END]"}, {signal: "[WAIT]"}]}}
"""


def run(folder: Path, *asked: str) -> Result:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    return CliRunner().invoke(interlock, [*asked, "--data", str(folder / "data"), "--json"])


def events(outcome: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in outcome.stdout.splitlines()]


def script(folder: Path, *replies: str) -> str:
    file = folder / "script.yaml"
    file.write_text("replies:\n  a:\n" + "".join(f"    - {reply}\n" for reply in replies), "utf-8")
    return str(file)


async def paused(folder: Path) -> str:
    """A run whose question has a deadline of an hour ago."""
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    call = ToolCall(name="ask_user", arguments={"question": "which?", "deadline_seconds": 60, "default": "blue"})

    clock = ManualClock(now_ms=1_700_000_000_000)  # long ago
    model = ScriptedModel({"a": [Answer(tool_calls=(call,))]})
    async with Interlock(folder / "data", models=model, clock=clock) as box:
        handle = await box.start(load_crew(folder), "go")
        assert (await handle.result()).reason == "question"
        return handle.id


@pytest.mark.parametrize(
    ("reply", "code", "last"),
    [
        ('"done\\n[END]"', 0, ("run.finished", "completed")),
        ('"hm\\n[WAIT]"', 3, ("run.paused", "signal:[WAIT]")),
        ('{error: "away"}', 1, ("run.finished", "failed")),
    ],
)
@pytest.mark.parametrize("words", [(), ("--input", "red")], ids=["no input", "a late answer"])
def test_it_says_what_happened_and_exits_as_the_run_ends(
    tmp_path: Path, reply: str, code: int, last: tuple[str, str], words: tuple[str, ...]
) -> None:
    run_id = asyncio.run(paused(tmp_path))
    answers = script(tmp_path, '"first"', *[reply] * 3)
    outcome = run(tmp_path, "resume", run_id, *words, "--script", answers)
    assert outcome.exit_code == code, outcome.output
    assert "deadline" in outcome.stderr
    assert "its default was used: blue" in outcome.stderr
    assert ("is not used" in outcome.stderr) == bool(words)
    told = events(outcome)
    assert "input.expired" in [event["type"] for event in told]
    assert (told[-1]["type"], told[-1].get("status", told[-1]["reason"])) == last


def test_runs_answer_does_the_same(tmp_path: Path) -> None:
    run_id = asyncio.run(paused(tmp_path))
    answers = script(tmp_path, '"first"', '"done\\n[END]"')
    outcome = run(tmp_path, "runs", "answer", f"{run_id}:m1", "red", "--script", answers)
    assert outcome.exit_code == 0, outcome.output
    assert "its default was used: blue" in outcome.stderr
    assert events(outcome)[-1]["status"] == "completed"


async def test_a_host_is_refused_and_its_run_continues(tmp_path: Path) -> None:
    run_id = await paused(tmp_path)

    async with Interlock(tmp_path / "data", models=ScriptedModel({"a": ["first", "done [END]"]})) as box:
        with pytest.raises(NotWaiting, match="deadline"):
            await box.resume(run_id, "red")
        await box.runner.wait_until_settled(run_id)
        assert (await box.result(run_id)).status == "completed"
