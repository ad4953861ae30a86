"""Delegation beyond its stories: bounds, forks, and what models are told."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.adapters.crews.crew_files import read_crew
from interlock.crew.definition import CrewDefinition
from interlock.engine.builtin_tools import builtin_schemas_for
from interlock.engine.effects import CallModel
from interlock.engine.events import ModelReplied, RunStarted, ToolRequest, ToolReturned
from interlock.engine.prompt.conversation import Conversation
from interlock.engine.run import RULES, Run
from interlock.engine.state import turns_of
from interlock.limits import FAN_OUT_MAX, JSON_DEPTH_MAX, MESSAGES_MAX


def crew_of(folder: Path, children: int = 2, keys: str = "", tools: str = "") -> CrewDefinition:
    agents = "".join(f"  - {{id: c{n}, role: child {n}, tools: [{tools}]}}\n" for n in range(children))
    names = ", ".join(f"c{n}" for n in range(children))
    (folder / "crew.yaml").write_text(
        'version: "2.0"\nname: many\nentry_point: root\nagents:\n  - {id: root, is_terminal: true}\n'
        f"{agents}delegation: {{children: {{root: [{names}]}}, select: all{keys}}}\n",
        "utf-8",
    )
    loaded = read_crew(folder)
    assert loaded.crew is not None
    assert loaded.is_sound, loaded.problems
    return loaded.crew


class Talk:
    """A run whose models say what they are told to say."""

    def __init__(self, crew: CrewDefinition, rules: int = RULES) -> None:
        self.run = Run(crew, "r")
        self.calls: dict[str, str] = {}
        self.take(RunStarted(crew=crew.name, input="go", rules=rules))

    def take(self, event: Any) -> tuple[Any, ...]:
        step = self.run.apply(event)
        self.calls |= {effect.agent: effect.key for effect in step.effects if isinstance(effect, CallModel)}
        return step.facts

    def says(self, agent: str, *calls: tuple[str, dict[str, Any]], text: str = "") -> tuple[Any, ...]:
        requests = tuple(
            ToolRequest(id=f"t{n}", name=name, arguments=msgspec.json.encode(given).decode())
            for n, (name, given) in enumerate(calls)
        )
        return self.take(ModelReplied(call=self.calls[agent], agent=agent, text=text, tool_calls=requests))

    def outputs(self, agent: str) -> list[str]:
        turn = next(turn for turn in turns_of(self.run.state) if turn.agent == agent)
        return [message.text for message in turn.said if message.role == "tool"]


def gives(child: str) -> tuple[str, dict[str, Any]]:
    return "delegate", {"to": child, "task": "look"}


def test_delegating_is_no_handoff(tmp_path: Path) -> None:
    talk = Talk(crew_of(tmp_path))
    talk.says("root", gives("c0"), gives("c1"))
    talk.says("c0", text="a")
    talk.says("c1", text="b")
    talk.says("root", text="done")
    assert (talk.run.state.status, talk.run.state.handoffs) == ("completed", 0)


def test_no_more_tasks_than_a_thousand_are_open_at_once(tmp_path: Path) -> None:
    talk = Talk(crew_of(tmp_path))
    facts = talk.says("root", *[gives("c0")] * (FAN_OUT_MAX + 1))
    refused = [fact for fact in facts if getattr(fact, "outcome", "") == "refused"]
    assert [fact.code for fact in refused] == ["too-many-messages"]
    assert f"no more than {FAN_OUT_MAX} are allowed (tasks open at once)" in refused[0].because


def test_a_run_sends_no_more_messages_than_ten_thousand(tmp_path: Path) -> None:
    talk = Talk(crew_of(tmp_path))
    talk.run.state.messages = MESSAGES_MAX - 1
    talk.says("root", gives("c0"), gives("c1"))
    assert talk.outputs("root")[1].startswith("error: too-many-messages: no more than 10000")
    talk.says("c0", ("query_parent", {"question": "?"}))
    assert talk.outputs("c0")[0].startswith("error: too-many-messages")
    facts = talk.says("c0", text="an answer always has room")
    assert [fact.outcome for fact in facts if hasattr(fact, "outcome")] == ["answered", "answered"]


def test_a_model_is_told_whom_it_may_delegate_to_and_a_child_how_to_report(tmp_path: Path) -> None:
    crew = crew_of(tmp_path)
    talk = Talk(crew)
    root = turns_of(talk.run.state)[0]
    (name, description, parameters), answer = builtin_schemas_for(crew, crew.agents[0], root, talk.run.state)
    assert (name, answer[0]) == ("delegate", "answer_child")
    assert "c0: child 0\nc1: child 1" in description
    assert parameters["properties"]["to"]["enum"] == ["c0", "c1"]
    talk.says("root", gives("c0"))
    child = next(turn for turn in turns_of(talk.run.state) if turn.agent == "c0")
    assert [name for name, _, _ in builtin_schemas_for(crew, crew.agents[1], child, talk.run.state)] == [
        "report",
        "query_parent",
    ]
    told = Conversation(crew, talk.run.table).instructions(child.agent, kind=child.kind)
    assert "a task that root gives you below" in told
    assert "Signals" not in told


@pytest.mark.parametrize(("rules", "stands_still"), [(1, False), (2, True)])
def test_a_task_that_its_child_cannot_take_up_waits_for_the_person_too(
    tmp_path: Path, rules: int, stands_still: bool
) -> None:
    """A run that began under the first rules goes on under them."""
    talk = Talk(crew_of(tmp_path, tools="ask_user"), rules)
    talk.says("root", gives("c0"), gives("c0"), gives("c1"))
    assert talk.run.state.timers["ack:r:m2"].key
    talk.says("c0", ("ask_user", {"question": "?"}))
    assert (talk.run.state.timers["ack:r:m2"].key == "") is stands_still
    assert talk.run.state.timers["answer:r:m2"].key == ""


@pytest.mark.parametrize(("rules", "deadline_ms"), [(1, 0), (2, 1)])
def test_a_deadline_of_less_than_a_millisecond_is_one(tmp_path: Path, rules: int, deadline_ms: int) -> None:
    talk = Talk(crew_of(tmp_path, tools="ask_user"), rules)
    talk.says("root", gives("c0"))
    talk.says("c0", ("ask_user", {"question": "?", "deadline_seconds": 0.0004, "default": "x"}))
    assert [wait.deadline_ms for wait in talk.run.state.waits] == [deadline_ms]


def test_a_default_counts_as_an_answer_in_its_words_would(tmp_path: Path) -> None:
    talk = Talk(crew_of(tmp_path, tools="ask_user"))
    talk.says("root", gives("c0"))
    talk.says("c0", ("ask_user", {"question": "?", "choices": ["Yes", "No"], "deadline_seconds": 9, "default": " y"}))
    assert "the default does not fit: 'y' is none of the choices" in talk.outputs("c0")[0]
    talk.says("c0", ("ask_user", {"question": "?", "choices": ["Yes", "No"], "deadline_seconds": 9, "default": "yes "}))
    assert [wait.default for wait in talk.run.state.waits] == ["Yes"]


@pytest.mark.parametrize(("rules", "asked"), [(1, 1), (2, 0)])
def test_a_question_whose_schema_says_what_nobody_looks_at_is_refused(tmp_path: Path, rules: int, asked: int) -> None:
    talk = Talk(crew_of(tmp_path, tools="ask_user"), rules)
    talk.says("root", gives("c0"))
    talk.says("c0", ("ask_user", {"question": "?", "answer_schema": {"minimum": 3}}))
    assert len(talk.run.state.waits) == asked
    if not asked:
        assert "'minimum' goes with type integer or number" in talk.outputs("c0")[0]


@pytest.mark.parametrize("levels", [JSON_DEPTH_MAX - 1, JSON_DEPTH_MAX, 930, 990, 2_000])
def test_what_is_nested_deep_is_taken_or_refused_whatever_the_stack_of_who_reads_it(
    tmp_path: Path, levels: int
) -> None:
    """A replay has another stack than the run had, and must come to the same end."""
    crew = crew_of(tmp_path)
    nested = '{"to":"c0","task":"x","context":' + '{"a":' * (levels - 2) + "{}" + "}" * (levels - 1)
    call = ToolRequest(id="t", name="delegate", arguments=nested)

    def facts(frames: int) -> tuple[Any, ...]:
        if frames:
            return facts(frames - 1)
        talk = Talk(crew)
        found = talk.take(ModelReplied(call=talk.calls["root"], agent="root", text="", tool_calls=(call,)))
        assert msgspec.json.decode(msgspec.json.encode(talk.run.snapshot()))
        return found

    assert facts(0) == facts(200)
    returned = next(fact for fact in facts(0) if isinstance(fact, ToolReturned))
    assert returned.ok is (levels <= JSON_DEPTH_MAX), returned.output


@pytest.mark.parametrize("language", ["en", "vi"])
def test_mail_is_shown_in_the_language_of_the_crew(tmp_path: Path, language: str) -> None:
    crew = crew_of(tmp_path)
    settings = msgspec.structs.replace(crew.settings, language=language)
    talk = Talk(msgspec.structs.replace(crew, settings=settings))
    talk.says("root", gives("c0"))
    child = next(turn for turn in turns_of(talk.run.state) if turn.agent == "c0")
    assert child.said[0].text.startswith({"en": "Task m1 from root", "vi": "Nhiệm vụ m1 từ root"}[language])


def test_a_long_task_is_shown_within_the_window(tmp_path: Path) -> None:
    crew = crew_of(tmp_path)
    settings = msgspec.structs.replace(crew.settings, max_context_window=1000)
    talk = Talk(msgspec.structs.replace(crew, settings=settings))
    talk.says("root", ("delegate", {"to": "c0", "task": "x" * 20_000}))
    child = next(turn for turn in turns_of(talk.run.state) if turn.agent == "c0")
    conversation = Conversation(talk.run.crew, talk.run.table)
    shown = conversation.messages(talk.run.state.history, child)
    assert conversation.estimate_of("c0", shown) <= 1000
    assert "characters are left out here" in shown[0].text
