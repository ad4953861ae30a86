"""Texts that no run changes are built once, and differ by what the turn is for."""

from pathlib import Path

from interlock.adapters.crews.crew_files import read_crew
from interlock.engine.kinds import TurnKind
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.prompt.texts import PromptTexts
from interlock.engine.routing.decision import RoutingTable

CREW = """\
version: "2.0"
name: tree
entry_point: root
agents: [{id: root, system_prompt: "  You lead.", is_terminal: true}, {id: child, system_prompt: "You work."}]
delegation: {children: {root: [child]}, select: all}
"""


def texts_of(folder: Path, text: str = CREW) -> PromptTexts:
    (folder / "crew.yaml").write_text(text, "utf-8")
    crew = read_crew(folder).crew
    assert crew is not None
    return PromptTexts(crew, RoutingTable(crew))


def test_conversations_of_one_crew_share_its_texts(tmp_path: Path) -> None:
    texts = texts_of(tmp_path)
    one, other = (Conversation(texts.crew, texts.table, texts) for _ in range(2))
    assert one.instructions("root") is other.instructions("root")
    assert one.instructions("root") == Conversation(texts.crew, texts.table).instructions("root")


def test_a_task_has_the_prompt_and_its_own_rules_and_an_advisory_call_has_no_prompt(tmp_path: Path) -> None:
    texts = texts_of(tmp_path)
    floor, task = texts.instructions("child"), texts.instructions("child", "", TurnKind.TASK)
    assert floor.startswith("You work.") and task.startswith("You work.") and floor != task
    assert "You lead." not in texts.instructions("root", "", TurnKind.SELECT)
    assert texts.ending("child", "", TurnKind.TASK) is None


def test_only_a_turn_that_is_asked_for_an_output_is_told_of_it(tmp_path: Path) -> None:
    texts = texts_of(tmp_path, CREW.replace("{id: child,", "{id: child, output: {type: integer},"))
    assert "## Output" in texts.instructions("child") and "integer" in texts.instructions("child")
    assert texts.typed_reply("child") is not None
    for kind in (TurnKind.TASK, TurnKind.SELECT, TurnKind.CHECK):
        assert "## Output" not in texts.instructions("child", "", kind) and texts.typed_reply("child", "", kind) is None
    aside = texts.instructions("child", "", TurnKind.FLOOR, True)
    assert "## Output" not in aside and aside.startswith("You work.")


def test_the_longest_instructions_count_those_of_a_task_too(tmp_path: Path) -> None:
    texts = texts_of(tmp_path)
    assert texts.longest("child") * 3 > len(texts.instructions("child").encode())
