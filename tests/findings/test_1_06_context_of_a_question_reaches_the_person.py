"""Finding 1.6: why an agent asks reaches the person wherever the question does."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.adapters.config.webhook_settings import OutgoingHook
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.cli.main import interlock
from interlock.cli.view.answer_prompt import AnswerPrompt
from interlock.cli.view.live_graph import GraphLayout
from interlock.cli.view.live_view import page_rows
from interlock.cli.view.progress import Progress
from interlock.compose.crews import load_definition
from interlock.engine.events import InputRequested
from interlock.ports import Record, StoredRecord
from interlock.server.webhooks import deliveries_of
from tests.server.office import crew_file, open_office

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
    return ScriptedModel({"clerk": [ScriptedAnswer(tool_calls=(call,)), "Booked."]})


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
    progress, crew = Progress(0), load_definition(folder / "crew.yaml")
    events = told("run", "crew.yaml", "go", "--script", "script.yaml", "--json", code=3).splitlines()
    for event in map(json.loads, events):
        progress.apply_event(event)
    asker = AnswerPrompt(progress)
    asker.question = asker.next_question()
    assert asker.question is not None
    assert asker.question.text == f"context: {WHY}\nWhich city?\n(a text of the form [A-Z]+)"
    shown = "\n".join(row.plain for row in page_rows(GraphLayout(crew), crew, progress, (100, 30), 0, asker))
    assert f"context: {WHY}" in shown and "Which city?" in shown


async def test_the_server_gives_it_with_the_question_and_with_the_run(tmp_path: Path) -> None:
    async with open_office(tmp_path, crews={"crew": CREW}, model=asking()) as office:
        run = await office.start("go")
        await office.box.runner.wait_until_settled(run["id"])
        (question,) = (await office.get("/v1/questions")).json()["questions"]
        assert (question["question"], question["context"]) == ("Which city?", WHY)
        detail = (await office.get(f"/v1/runs/{run['id']}")).json()
        assert [each["context"] for each in detail["questions"]] == [WHY]
        document = (await office.get("/openapi.json")).json()
        assert "context" in document["components"]["schemas"]["Question"]["required"]


def test_a_webhook_is_told_it() -> None:
    event = InputRequested(agent="clerk", question="Which city?", token="run:1", context=WHY)
    stored = StoredRecord(position=1, run="run", record=Record(seq=1, at=0, events=(event,)))
    hook = OutgoingHook(url="https://example.com", secret_env="S", on=("question",))
    (letter,) = deliveries_of("ops", hook, [stored], 0)
    assert json.loads(letter.body)["data"]["context"] == WHY
