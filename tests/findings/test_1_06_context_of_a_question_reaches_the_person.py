"""Finding 1.6: why an agent asks reaches the person wherever the question does."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock import load_crew
from interlock.adapters.models.scripted import Answer, ScriptedModel, ToolCall
from interlock.adapters.webhook_settings import OutgoingHook
from interlock.cli.answering import Asker
from interlock.cli.live_graph import Map
from interlock.cli.live_view import page
from interlock.cli.main import interlock
from interlock.cli.progress import Progress
from interlock.engine.events import InputRequested
from interlock.ports import Record, StoredRecord
from interlock.server.webhooks_out import letters_of
from tests.server.office import Office, crew_file, played

WHY = "I need this to search for flights"
CREW = """\
version: "2.0"
name: office
entry_point: clerk
agents: [{id: clerk, tools: [ask_user], is_terminal: true}]
"""
SCRIPT = f"""\
replies:
  clerk:
    - tool_calls: [{{name: ask_user, arguments: {{question: Which city?, context: {WHY}, pattern: "[A-Z]+"}}}}]
    - "Booked."
"""


def asking() -> ScriptedModel:
    call = ToolCall(name="ask_user", arguments={"question": "Which city?", "context": WHY, "pattern": "[A-Z]+"})
    return ScriptedModel({"clerk": [Answer(tool_calls=(call,)), "Booked."]})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    crew_file(tmp_path, CREW)
    (tmp_path / "script.yaml").write_text(SCRIPT, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(interlock, list(words))
    assert result.exit_code == code, result.output
    return result.stdout


def test_the_command_line_shows_it_in_lines_in_json_and_in_the_list(folder: Path) -> None:
    run = ("run", "crew.yaml", "go", "--script", "script.yaml")
    plain = told(*run, "--plain", code=3)
    assert f"clerk -> user REQUEST_USER_INPUT: Which city? (context: {WHY})" in plain
    assert f"asked: Which city?\ncontext: {WHY}\n" in plain
    events = [json.loads(line) for line in told(*run, "--json", code=3).splitlines()]
    (asked,) = [event for event in events if event["type"] == "input.requested"]
    assert asked["context"] == WHY
    listed = told("runs", "questions")
    assert listed.count(f"  context: {WHY}\n") == 2
    assert {json.loads(line)["context"] for line in told("runs", "questions", "--json").splitlines()} == {WHY}


def test_it_stays_when_an_answer_is_refused(folder: Path) -> None:
    told("run", "crew.yaml", "go", "--script", "script.yaml", code=3)
    (question,) = map(json.loads, told("runs", "questions", "--json").splitlines())
    again = told("runs", "answer", question["id"], "rome", "--script", "script.yaml", "--plain", code=3)
    assert f"context: {WHY}\n" in again
    assert f"  context: {WHY}\n" in told("runs", "questions")


def test_the_live_view_shows_it_above_the_question(folder: Path) -> None:
    progress, crew = Progress(0), load_crew(folder / "crew.yaml")
    events = told("run", "crew.yaml", "go", "--script", "script.yaml", "--json", code=3).splitlines()
    for event in map(json.loads, events):
        progress.take(event)
    asker = Asker(progress)
    asker.question = asker.next()
    assert asker.question is not None
    assert asker.question.text == f"context: {WHY}\nWhich city?\n(a text of the form [A-Z]+)"
    shown = "\n".join(row.plain for row in page(Map(crew), crew, progress, (100, 30), 0, asker))
    assert f"context: {WHY}" in shown and "Which city?" in shown


def test_the_server_gives_it_with_the_question_and_with_the_run(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        run = await office.start("go")
        await office.box.runner.settled(run["id"])
        (question,) = (await office.get("/v1/questions")).json()["questions"]
        assert (question["question"], question["context"]) == ("Which city?", WHY)
        detail = (await office.get(f"/v1/runs/{run['id']}")).json()
        assert [each["context"] for each in detail["questions"]] == [WHY]
        document = (await office.get("/openapi.json")).json()
        assert "context" in document["components"]["schemas"]["Question"]["required"]

    played(tmp_path, story, crews={"crew": CREW}, model=asking())


def test_a_webhook_is_told_it() -> None:
    event = InputRequested(agent="clerk", question="Which city?", token="run:1", context=WHY)
    stored = StoredRecord(position=1, run="run", record=Record(seq=1, at=0, events=(event,)))
    hook = OutgoingHook(url="https://example.com", secret_env="S", on=("question",))
    (letter,) = letters_of("ops", hook, [stored], 0)
    assert json.loads(letter.body)["data"]["context"] == WHY
