"""examples/multi-team: the crew of the multi-crew proposal, word for word, and the program that it replaces."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from click.testing import CliRunner

from interlock import Interlock
from interlock.adapters.crews.script_files import read_script
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel
from interlock.cli.main import interlock
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.ports import ModelRequest
from interlock.signals.definition import SignalBehavior
from tests.crew.test_seed_examples import SEED_003_5
from tests.framing import said

MULTI_TEAM = Path("examples/multi-team")
ALPHA, BETA = MULTI_TEAM / "team-alpha" / "config", MULTI_TEAM / "team-beta" / "config"
TOPIC = "Trà sen Tây Hồ"


class Asked(NamedTuple):
    """One question to a model: whose turn it was, what it was told to do, and all that it was shown."""

    agent: str
    system: str
    shown: list[tuple[str, str]]


class Work(NamedTuple):
    """One piece of work that a crew was given."""

    crew: str
    input: str
    result: str


class Story(NamedTuple):
    """What came of one way to do it."""

    works: list[Work]
    text: str
    asked: list[Asked]


class Speaker:
    """Speaks for every agent from the script, each answer once, whichever run it is asked in."""

    def __init__(self, script: dict[str, list[ScriptedAnswer | str]]) -> None:
        self.answers = {
            agent: [each if isinstance(each, str) else each.text for each in script[agent]] for agent in script
        }
        self.asked: list[Asked] = []

    def __call__(self, request: ModelRequest) -> str:
        self.asked.append(Asked(request.agent, request.system, [(m.role, m.text) for m in request.messages]))
        return self.answers[request.agent].pop(0)


class MultiTeamOrchestrator:
    """The appendix's workaround: a master, two teams, marks found by hand, results carried by hand."""

    def __init__(self, box: Interlock, master: CrewDefinition, alpha: CrewDefinition, beta: CrewDefinition) -> None:
        self.box, self.master, self.alpha, self.beta = box, master, alpha, beta
        self.works: list[Work] = []

    async def execute(self, text: str) -> str:
        said = await (await self.box.start(self.master, text)).result()
        found = ""
        while "[FINAL]" not in said.output:
            if "[RESEARCH]" in said.output:
                found = await self._team(self.alpha, text)
            elif "[WRITE]" in said.output:
                wanted = f"Dựa trên kết quả nghiên cứu sau:\n{found}\n\nHãy viết content về: {text}\n"
                found = await self._team(self.beta, wanted)
            said = await (await self.box.continue_run(self.master, found, said.run)).result()
        return said.text

    async def _team(self, crew: CrewDefinition, text: str) -> str:
        result = await (await self.box.start(crew, text)).result()
        self.works.append(Work(crew.name, text, result.text))
        return result.text


def master_of(crew: CrewDefinition) -> CrewDefinition:
    """The coordinator alone, as the appendix has it: every mark ends its run, and the program looks which it was."""
    ending = {"behavior": SignalBehavior.TERMINATE, "target_crew": "", "return_to": "", "input_template": ""}
    routes = {agent: tuple(msgspec.structs.replace(r, **ending) for r in each) for agent, each in crew.routes.items()}
    return msgspec.structs.replace(crew, name="master", routes=routes, sub_crews={})


async def by_hand(data: Path, script: dict[str, list[ScriptedAnswer | str]]) -> Story:
    speaker = Speaker(script)
    async with Interlock(data, models=speaker) as box:
        program = MultiTeamOrchestrator(
            box, master_of(load_definition(MULTI_TEAM)), load_definition(ALPHA), load_definition(BETA)
        )
        text = await program.execute(TOPIC)
    return Story(program.works, text, speaker.asked)


async def by_file(data: Path, script: dict[str, list[ScriptedAnswer | str]]) -> Story:
    speaker = Speaker(script)
    async with Interlock(data, models=speaker) as box:
        run = await box.start(load_definition(MULTI_TEAM), TOPIC)
        events = [event async for event in box.runner.follow(run.id)]
        result = await run.result()
    ended = {event["run"]: event["text"] for event in events if event["type"] == "run.finished"}
    works = [Work(e["crew"], e["input"], ended[e["child"]]) for e in events if e["type"] == "child.started"]
    return Story(works, result.text, speaker.asked)


Way = Callable[[Path, dict[str, list[ScriptedAnswer | str]]], Any]


async def told(way: Way, folder: Path) -> Story:
    story = await way(folder / way.__name__, read_script(MULTI_TEAM / "script.yaml"))
    assert isinstance(story, Story)
    return story


def test_the_crew_is_that_of_the_proposal_word_for_word() -> None:
    assert (MULTI_TEAM / "crew.yaml").read_text("utf-8") == SEED_003_5


async def test_the_file_does_what_the_program_did(tmp_path: Path) -> None:
    """The same teams get the same inputs in the same order, give the same results, and the same comes out."""
    program, file = await told(by_hand, tmp_path), await told(by_file, tmp_path)
    assert file.works == program.works
    assert file.text == program.text
    assert [asked.agent for asked in file.asked] == [asked.agent for asked in program.asked]
    assert team_talk(file) == team_talk(program)
    assert len(team_talk(file)) == 9


def team_talk(story: Story) -> list[Asked]:
    """What the models of the teams were shown; the coordinator's differs in that a file says whose result it is."""
    return [asked for asked in story.asked if asked.agent != "coordinator"]


async def test_the_story_is_the_one_that_the_script_tells(tmp_path: Path) -> None:
    found = "Tin được: một cân trà, một nghìn bông sen, ướp nhiều lần với gạo sen."
    written = "Một cân trà sen Tây Hồ cần một nghìn bông sen, ướp nhiều lần với gạo sen."
    story = await told(by_file, tmp_path)
    assert story.works == [
        Work("team-alpha", TOPIC, found),
        Work(
            "team-beta",
            f"Dựa trên kết quả nghiên cứu sau:\n{found}\n\nHãy viết content về: {TOPIC}\n",
            written,
        ),
    ]
    assert story.text == "Trà sen Tây Hồ: một nghìn bông sen cho một cân trà."
    assert [text for _, text in story.asked[-1].shown if written in text] == [said("team-beta", "result", written)]


def test_the_crew_needs_no_line_of_the_hosts_own_code() -> None:
    """The files of the example are YAML, and the command line runs them; beside them is the same crew in Python."""
    files = {file for file in MULTI_TEAM.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    assert {file.suffix for file in files - {MULTI_TEAM / "multi_team.py"}} == {".yaml"}


@pytest.mark.parametrize(
    "crew", [MULTI_TEAM, ALPHA, BETA], ids=lambda crew: crew.parts[-1] if crew == MULTI_TEAM else crew.parts[-2]
)
def test_the_crew_and_its_teams_pass_their_own_tests_and_take_every_route(crew: Path) -> None:
    done = CliRunner().invoke(interlock, ["test", str(crew)])
    assert (done.exit_code, "never:" in done.stdout) == (0, False), done.stdout


def test_the_command_runs_it_from_its_script(tmp_path: Path) -> None:
    words = [
        "run",
        str(MULTI_TEAM),
        TOPIC,
        "--script",
        str(MULTI_TEAM / "script.yaml"),
        "--data",
        str(tmp_path),
        "--plain",
    ]
    done = CliRunner().invoke(interlock, words)
    assert done.exit_code == 0
    assert re.search(r"^run [0-9a-f]{20} completed: signal:\[FINAL\]$", done.stdout, re.MULTILINE)


async def test_a_run_that_waits_inside_a_team_goes_on_when_all_files_are_gone(tmp_path: Path) -> None:
    """What a run needs of its crews was stored when it started: paths are followed at load and never again."""
    files = Path(shutil.copytree(MULTI_TEAM, tmp_path / "crew"))
    team = files / "team-beta" / "config" / "crew.yaml"
    team.write_text(re.sub(r'\{signal: "\[REWRITE\].*', '{signal: "[WAIT]"}', team.read_text("utf-8")), "utf-8")
    said = {
        "coordinator": ["[WRITE]", "Xong.\n[FINAL]"],
        "outliner": ["[OUTLINE]"],
        "writer": ["[DRAFT]"],
        "editor": ["Đăng chứ?\n[WAIT]", "Đăng.\n[DONE]"],
    }

    async with Interlock(tmp_path / "data", models=ScriptedModel(said)) as box:
        paused = await (await box.start(load_definition(files), TOPIC)).result()
    assert (paused.status, paused.reason) == ("paused", "signal:[WAIT]")
    shutil.rmtree(files)
    async with Interlock(tmp_path / "data", models=ScriptedModel(said)) as box:
        result = await (await box.resume(paused.run, "có", token=paused.token)).result()
    assert (result.status, result.reason, result.text) == ("completed", "signal:[FINAL]", "Xong.")
