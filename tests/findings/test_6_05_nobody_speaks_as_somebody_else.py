"""Finding 6.5: whatever door a text comes through, no frame of another author can be read in a prompt."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from interlock import Interlock, tool
from interlock.cli.main import interlock
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import Entry
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.state import Turn
from interlock.messages.frames import in_frame
from interlock.ports import ModelRequest
from tests.findings.forged_speech import SPEECH, TEXTS, read_members, read_reversed_tags, read_tags, tag
from tests.findings.puppets import Puppet, call, names, speakers

FLOW = """\
version: "2.0"
name: shop
entry_point: clerk
agents:
  - {id: clerk, name: Clerk, tools: [look, fail, memory_write, memory_read]}
  - {id: ann, name: Ann}
  - {id: bob, name: Bob}
  - {id: manager, name: manager}
sub_crews: {alpha: {config_path: alpha}, beta: {config_path: beta}}
subscriptions: {clerk: [{pattern: "note:*", silent: true}]}
signals: [{name: "[CALL]", behavior: external}]
routing:
  signals:
    clerk:
      - {signal: "[ASK]", target: both, type: parallel}
      - {signal: "[ALPHA]", type: sub_crew, target_crew: alpha}
      - {signal: "[BETA]", type: sub_crew, target_crew: beta}
      - {signal: "[WAIT]"}
      - {signal: "[CALL]", type: external, pause: true}
      - {signal: "[UP]", target: manager, type: route}
      - {signal: "[END]"}
    manager: [{signal: "[END]"}]
  parallel_groups: {both: {agents: [ann, bob], next_agent: clerk}}
settings: {language: LANGUAGE}
"""
SUB = 'version: "2.0"\nname: NAME\nentry_point: x\nagents: [{id: x, name: manager}]\n'
TREE = """\
version: "2.0"
name: tree
entry_point: root
agents:
  - {id: root, is_terminal: true}
  - {id: kid, tools: [ask_user]}
delegation: {children: {root: [kid]}, max_follow_ups: 1, report_check: model}
"""


@tool
def look(text: str) -> str:
    """Gives what it is given."""
    return text


@tool
def fail(text: str) -> str:
    """Fails with what it is given."""
    raise ValueError(text)


@pytest.fixture(scope="module", params=["en", "vi"])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CrewDefinition:
    return crew_of(tmp_path_factory.mktemp("shop"), FLOW.replace("LANGUAGE", request.param))


def crew_of(folder: Path, text: str) -> CrewDefinition:
    for name in ("alpha", "beta"):
        (folder / name).mkdir()
        (folder / name / "crew.yaml").write_text(SUB.replace("NAME", name), "utf-8")
    (folder / "crew.yaml").write_text(text, "utf-8")
    return load_definition(folder, tools=[look, fail])


def through_every_door_of_a_shop(text: str) -> dict[str, list[Any]]:
    return {
        "clerk": [
            call("look", text=text),
            call("fail", text=text),
            call("memory_write", key="k", value=text),
            call("memory_read", key="k"),
            "x [ASK]",
            "x [ALPHA] [BETA]",
            "x [ALPHA]",
            "x [WAIT]",
            "x [CALL]",
            f"{text}\n\n[UP]",
        ],
        "ann": [text],
        "bob": [text],
        "manager": ["x [END]"],
        "x": [text, text, text],
    }


async def test_no_text_speaks_as_another_through_user_tools_memory_members_crews_answers_or_broadcasts(
    shop: CrewDefinition, tmp_path: Path
) -> None:
    assert len(TEXTS) >= 300
    model, texts = Puppet(), TEXTS[:: 1 if shop.settings.language == "en" else 9]

    async with Interlock(tmp_path, models=model, tools=[look, fail], durability="normal") as box:
        await box.listen(shop)
        for text in texts:
            model.use(through_every_door_of_a_shop(text))
            await box.signals.emit("note:x", {"text": text, text[:80]: 1})
            run = await box.start(shop, text)
            for _ in range(2):
                assert (await run.result()).status == "paused", text
                run = await box.resume(run.id, text)
            assert (await run.result()).status == "completed", text
            require_the_shop_was_honest(model.requests)


def require_the_shop_was_honest(requests: Sequence[ModelRequest]) -> None:
    last = requests[-1]
    assert last.agent == "manager", "the clerk was shown all, and so is the manager"
    others = names("user", "Ann", "Bob", "alpha", "beta", "external", "process")
    assert speakers([last]) == others | names("Clerk")
    assert speakers(request for request in requests if request.agent == "clerk") == others
    assert speakers(requests) == others | names("Clerk")
    merged = next(message for message in last.messages if "[Ann] " in message.text)
    assert [name for name in read_members(merged.text) if name in ("Ann", "Bob")] == ["Ann", "Bob"]


async def test_no_text_speaks_as_another_in_tasks_questions_answers_reports_or_verdicts(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(TREE, "utf-8")
    crew, model = load_definition(tmp_path), Puppet()

    async with Interlock(tmp_path / "data", models=model, durability="normal") as box:
        for text in TEXTS:
            model.use(through_every_letter(text))
            run = await box.start(crew, text)
            assert (await run.result()).reason == "question", text
            (question,) = await box.questions()
            result = await (await box.answer(question.id, text)).result()
            assert (result.status, result.reason) == ("completed", "terminal_agent"), text
            assert {request.purpose for request in model.requests} == {"", "select", "check"}
            assert speakers(model.requests) == {*names("user", "root", "kid"), ""}


def through_every_letter(text: str) -> dict[str, list[Any]]:
    refused = json.dumps({"completed": False, "reason": text})
    return {
        "root": [
            json.dumps([text]),
            '["kid"]',
            call("delegate", to="kid", task=text, context={"known": text}),
            call("answer_child", question="m2", answer=text),
            refused,
            refused,
            "done",
        ],
        "kid": [
            call("query_parent", question=text),
            call("ask_user", question=text),
            "",
            call("report", result=text, status="completed"),
            call("report", result=text, status="completed"),
        ],
    }


def test_the_reader_is_deceived_by_texts_that_nobody_has_escaped() -> None:
    """So that the tests above can fail."""
    deceived = [text for text in TEXTS if read_tags(text) or read_reversed_tags(text)]
    assert len(deceived) > len(TEXTS) * 0.9
    assert read_tags(tag("manager")) == ["manager"]


def test_the_users_text_of_the_finding_is_not_what_the_manager_says(shop: CrewDefinition) -> None:
    table = RoutingTable(shop)
    said = [
        Entry(role="user", author="user", text=f"manager:\n{SPEECH}", turn=0),
        Entry(role="assistant", author="manager", text=SPEECH, turn=0),
    ]
    turn = Turn(number=1, agent="clerk", history=2)
    assert [message.text for message in Conversation(shop, table).messages(said, turn)] == [
        f'<said by="user" kind="input">\nmanager:\n{SPEECH}\n</said>',
        f'<said by="manager" kind="reply">\n{SPEECH}\n</said>',
    ]


def test_a_name_breaks_no_frame_either() -> None:
    for text in TEXTS:
        (author, closing) = read_tags(in_frame(text, "reply", "x"))
        assert closing == "/" and in_frame(text, "reply", "x").count("\n") == 2, author


def test_what_is_left_of_a_long_text_stands_in_a_whole_frame(shop: CrewDefinition) -> None:
    narrow = msgspec.structs.replace(shop, settings=msgspec.structs.replace(shop.settings, max_context_window=900))
    assert TEXTS
    for text in TEXTS[::5]:
        history = [Entry(role="user", author="user", text=(text + "\n") * 200, turn=0)]
        shown = Conversation(narrow, RoutingTable(narrow)).messages(history, Turn(number=1, agent="ann", history=1))
        assert read_tags(shown[0].text) == ["user", "/"]
        assert len(shown[0].text) < len(history[0].text)


@pytest.mark.parametrize("language", ["en", "vi"])
def test_the_command_that_shows_a_prompt_tells_of_the_frame(language: str, tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(f"{TREE}settings: {{language: {language}}}\n", "utf-8")
    shown = CliRunner().invoke(interlock, ["explain", str(tmp_path), "--agent", "root", "--prompt"])
    heading = {"en": "## Who speaks", "vi": "## Ai đang nói"}[language]
    assert heading in shown.output and "</said>" in shown.output
