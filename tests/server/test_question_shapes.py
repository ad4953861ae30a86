"""What the API tells of questions, so that a page can make forms of them; and of the models of a run."""

from contextlib import closing
from pathlib import Path
from typing import Any

from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.adapters.sqlite.migrations import MIGRATIONS, connect
from interlock.testing import ScriptedModel
from tests.findings.asking_crews import FORM, PROPOSED, TOML, crew_text, script, write_crews
from tests.server.office import open_office
from tests.server.process import Served, serving
from tests.server.routes.test_crew_routes import ASKING_CREW

OUTER = """\
version: "2.0"
name: outer
entry_point: lead
agents: [{id: lead, model: "openai:gpt-4o-mini"}, {id: plain}]
sub_crews: {inner: {config_path: inner.yaml}}
routing:
  signals:
    lead: [{signal: "[IN]", type: sub_crew, target_crew: inner, return_to: plain}]
    plain: [{signal: "[DONE]"}]
"""
INNER = """\
version: "2.0"
name: inner
entry_point: deep
agents: [{id: deep, model: "ollama:llama3"}]
routing: {signals: {deep: [{signal: "[DONE]"}]}}
"""


def ask(server: Served, crew: str) -> dict[str, Any]:
    with server.asking() as client:
        run = client.post("/v1/runs", json={"crew": crew, "input": "go"}).raise_for_status().json()["id"]
        while not (detail := client.get(f"/v1/runs/{run}").json())["questions"]:
            pass
        return dict(detail["questions"][0])


def test_questions_carry_their_form_and_approvals_their_arguments(tmp_path: Path) -> None:
    others = write_crews(tmp_path)
    with serving(tmp_path, *others, script=script(), toml=TOML, crew=crew_text("words")) as server:
        form = ask(server, "forms")
        assert (form["context"], form["answer_schema"], form["fault"]) == ("To book it.", FORM, "")
        assert form["deadline_at"] == form["asked_at"] + 3_600_000
        assert (form["tool"], form["arguments"], form["default"]) == ("", None, None)
        approval = ask(server, "approvals")
        assert (approval["tool"], approval["arguments"]) == ("pay", PROPOSED)
        assert approval["parameters"]["properties"]["amount"] == {"type": "integer", "description": "In whole dollars."}
        assert approval["deadline_at"] is None
        words = ask(server, "words")
        assert (words["key"], words["context"], words["answer_schema"]) == (words["token"], "", {})


def test_a_question_that_is_asked_again_keeps_its_key_and_says_why(tmp_path: Path) -> None:
    others = write_crews(tmp_path)
    with serving(tmp_path, *others, script=script(), toml=TOML, crew=crew_text("words")) as server:
        for crew, why in (
            ("choices", "'green' is none of the choices; answer with one of: red, blue"),
            ("approvals", "that was neither yes nor no nor a JSON object"),
        ):
            first = ask(server, crew)
            with server.asking() as client:
                path = f"/v1/questions/{first['id']}/answer"
                detail = client.post(path, json={"answer": "green"}).raise_for_status().json()
            (again,) = detail["questions"]
            assert (again["key"], again["fault"]) == (first["key"], why)
            assert again["token"] != first["token"]
            assert again["question"] == f"{first['question']}\n({why})"


def test_a_run_tells_the_models_of_its_agents_and_of_those_below(tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(INNER, "utf-8")
    replies = "replies: {lead: ['In. [IN]'], deep: ['Deep. [DONE]'], plain: ['Out. [DONE]']}\n"
    with serving(tmp_path, script=replies, crew=OUTER) as server, server.asking() as client:
        run = client.post("/v1/runs", json={"crew": "outer", "input": "go"}).raise_for_status().json()
        assert run["models"] == [
            {"path": [], "agent": "lead", "model": "openai:gpt-4o-mini"},
            {"path": ["inner"], "agent": "deep", "model": "ollama:llama3"},
        ]


async def test_questions_of_an_older_folder_get_what_they_lack(tmp_path: Path) -> None:
    """As they were listed before there was a context: the next start lists them again from the journals."""
    call = ToolCall(name="ask_user", arguments={"question": "Which?", "context": "It is urgent."})
    model = ScriptedModel({"clerk": [ScriptedAnswer(tool_calls=(call,)), "So. [DONE]"]})

    async with open_office(tmp_path, crews={"crew": ASKING_CREW}, model=model) as office:
        await office.finished()
    (step,) = (statements for name, statements in MIGRATIONS if name.endswith("whole_questions"))
    with closing(connect(tmp_path / "data" / "interlock.db")) as database:
        database.execute("delete from questions")
        for statement in step:
            database.execute(statement)
    async with open_office(tmp_path, crews={"crew": ASKING_CREW}, model=model) as office:
        (question,) = (await office.get("/v1/questions")).json()["questions"]
        assert question["context"] == "It is urgent."
