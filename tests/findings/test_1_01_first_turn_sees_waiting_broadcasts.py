"""Finding 1.1: a silent broadcast that waits is shown with the agent's next turn, whoever starts it."""

import json
from pathlib import Path

from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.cli.main import interlock
from tests.server.office import crew_file, open_office

CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk}]
routing: {signals: {clerk: [{signal: "[DONE]"}]}}
subscriptions: {clerk: [{pattern: "build:*"}]}
"""


def told(*words: str) -> str:
    result = CliRunner().invoke(interlock, list(words))
    assert result.exit_code == 0, result.output
    return result.stdout


def run_once(folder: Path) -> list[str]:
    """The types of the broadcasts that the agent of one `interlock run` was shown."""
    words = ("run", str(folder / "crew.yaml"), "go", "--script", str(folder / "script.yaml"), "--json")
    events = [json.loads(line) for line in told(*words, "--data", str(folder / "data")).splitlines()]
    return [event["signal"]["type"] for event in events if event["type"] == "broadcast.delivered"]


def test_the_first_agent_of_a_fresh_command_sees_what_was_announced_before(tmp_path: Path) -> None:
    crew_file(tmp_path, CREW)
    (tmp_path / "script.yaml").write_text('replies: {clerk: ["ok [DONE]"]}\n', "utf-8")
    assert run_once(tmp_path) == []  # the crew's subscriptions are known from now on
    for number in range(3):
        told("broadcast", "emit", f"build:{number}", "--data", str(tmp_path / "data"))
        assert run_once(tmp_path) == [f"build:{number}"]
    assert run_once(tmp_path) == []


async def test_the_first_run_of_a_box_sees_what_was_announced_before_it_was_opened(tmp_path: Path) -> None:
    crew = load_crew(crew_file(tmp_path, CREW))

    def opened() -> Interlock:
        return Interlock(tmp_path / "data", models=ScriptedModel({"clerk": ["ok [DONE]"]}))

    async with opened() as box:
        await box.listen(crew)
        await box.signals.emit("build:x")
    async with opened() as box:
        run = await box.start(crew, "go")
        assert [
            event["signal"]["type"]
            async for event in box.runner.follow(run.id)
            if event["type"] == "broadcast.delivered"
        ] == ["build:x"]


async def test_a_server_shows_what_another_process_has_just_announced(tmp_path: Path) -> None:
    """It does not wait for its next look at what other processes have done, four times a second."""

    async with open_office(tmp_path, crews={"crew": CREW}) as office:
        await office.start("hello")  # its tasks have begun
        async with Interlock(tmp_path / "data") as elsewhere:
            for number in range(5):
                await elsewhere.signals.emit(f"build:{number}")
                run = await office.finished("hello")
                events = (await office.get(f"/v1/runs/{run['id']}/events")).json()["events"]
                types = [event["signal"]["type"] for event in events if event["type"] == "broadcast.delivered"]
                assert types == [f"build:{number}"]
