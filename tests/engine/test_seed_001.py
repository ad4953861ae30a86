"""The three-agent quiz of seed 001, section 12: its file word for word, completed with its two groups and an ending.

The groups are those of section 6.1, the ending is that of 11.2: [END] leads to the reporter, whose [DONE] ends the run.
"""

import asyncio
from pathlib import Path

import pytest

from interlock import Interlock, load_crew
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.engine.state import RunState
from interlock.ports import ModelRequest
from tests.framing import by_user, said

SECTION_12 = """\
agents: [teacher, student, reporter]
routing:
  signals:
    teacher:
      - signal: "[QUESTION]"
        target: parallel_question
    student:
      - signal: "[ANSWER]"
        target: parallel_answer
    reporter:
      - signal: "[DONE]"
        target: ""
"""

GROUPS = """\
  parallel_groups:
    parallel_question: {agents: [student, reporter], wait_for_all: true, timeout_seconds: 30, next_agent: teacher}
    parallel_answer: {agents: [teacher, reporter], wait_for_all: true, timeout_seconds: 30, next_agent: teacher}
"""

ENDING = """\
      - signal: "[END]"
        target: reporter
"""

ROUNDS = 10


def completed(folder: Path) -> Path:
    routed = SECTION_12.replace("    student:\n", f"{ENDING}    student:\n")
    (folder / "crew.yaml").write_text(f'version: "1.0"\nname: quiz\nentry_point: teacher\n{routed}{GROUPS}', "utf-8")
    (folder / "agents").mkdir()
    for agent in ("teacher", "student", "reporter"):
        (folder / "agents" / f"{agent}.yaml").write_text(f"id: {agent}\nname: {agent.title()}\n", "utf-8")
    return folder


def question(n: int) -> str:
    """What the teacher says in the n-th round; the first two are the seed's own words."""
    first = "Question 1: What is 2+2? [QUESTION]"
    return first if n == 1 else f"Correct! Next: What is {n + 1}+{n + 1}? [QUESTION]"


def answer(n: int) -> str:
    return f"The answer is {2 * n + 2} [ANSWER]"


def registered(n: int) -> str:
    return f"Question {n} registered [OK]"


async def ran(folder: Path, crew: Path, script: dict[str, list[str]]) -> tuple[RunState, list[ModelRequest]]:
    model = ScriptedModel(script)
    async with Interlock(folder / "data", models=model) as box:
        run = await box.start(load_crew(crew), "Start quiz")
        await run.result()
        return await box.state(run.id), model.asked


Lines = list[tuple[str, str, str]]


def history_of(state: RunState) -> Lines:
    return [(entry.role, entry.author, entry.text) for entry in state.history]


def rounds(last: int) -> Lines:
    """The history the seed shows, round by round."""
    lines: Lines = [("user", "user", "Start quiz")]
    for n in range(1, last + 1):
        lines.append(("assistant", "teacher", question(n)))
        lines.append(("user", "system", f"[Student] {answer(n)}\n[Reporter] {registered(n)}"))
    return lines


@pytest.fixture(scope="module")
def quiz(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunState, list[ModelRequest]]:
    folder = tmp_path_factory.mktemp("quiz")
    numbers = range(1, ROUNDS + 1)
    script = {
        "teacher": [*map(question, numbers), "Well done. [END]"],
        "student": [*map(answer, numbers)],
        "reporter": [*map(registered, numbers), "Report saved [DONE]"],
    }
    return asyncio.run(ran(folder, completed(folder), script))  # once for the whole file


def test_the_quiz_runs_round_after_round_with_the_history_and_the_authors_of_the_seed(
    quiz: tuple[RunState, list[ModelRequest]],
) -> None:
    state, _ = quiz
    ending = [("assistant", "teacher", "Well done. [END]"), ("assistant", "reporter", "Report saved [DONE]")]
    assert history_of(state) == rounds(ROUNDS) + ending
    assert (state.status, state.reason, state.handoffs) == ("completed", "signal:[DONE]", ROUNDS + 1)


START = by_user("Start quiz")


def test_student_and_reporter_see_the_question_and_nothing_of_each_other(
    quiz: tuple[RunState, list[ModelRequest]],
) -> None:
    _, asked = quiz
    seen = [("user", START), ("user", said("Teacher", "reply", "Question 1: What is 2+2? ⟦QUESTION⟧"))]
    for request in asked[1:3]:
        assert [(m.role, m.text) for m in request.messages] == seen
    assert {request.agent for request in asked[1:3]} == {"student", "reporter"}


def test_the_teacher_gets_the_merged_results_as_input_of_the_second_round(
    quiz: tuple[RunState, list[ModelRequest]],
) -> None:
    _, asked = quiz
    assert [(m.role, m.text) for m in asked[3].messages] == [
        ("user", START),
        ("assistant", "Question 1: What is 2+2? [QUESTION]"),
        (
            "user",
            f"[Student] {said('Student', 'member', 'The answer is 4 ⟦ANSWER⟧')}\n"
            f"[Reporter] {said('Reporter', 'member', 'Question 1 registered ⟦OK⟧')}",
        ),
    ]


def test_everybody_sees_the_whole_conversation_in_the_last_round(quiz: tuple[RunState, list[ModelRequest]]) -> None:
    state, asked = quiz
    last = asked[-1]
    assert last.agent == "reporter"
    assert len(last.messages) == len(state.history) - 1
    assert last.messages[-1].text == said("Teacher", "reply", "Well done. ⟦END⟧")


async def test_the_crew_we_ship_takes_both_groups_round_after_round(tmp_path: Path) -> None:
    """There the student's [ANSWER] starts the second group, so that a round has two merged entries."""
    numbers = range(1, ROUNDS + 1)
    script = {
        "teacher": [line for n in numbers for line in (question(n), f"Right, {n}.")] + ["Well done. [END_EXAM]"],
        "student": [*map(answer, numbers)],
        "reporter": [line for n in numbers for line in (registered(n), f"Answer {n} registered [OK]")],
    }
    state, _ = await ran(tmp_path, Path("examples/quiz-exam"), script)
    marked = [("user", "system", f"[Teacher] Right, {n}.\n[Reporter] Answer {n} registered [OK]") for n in numbers]
    shown = rounds(ROUNDS)
    assert history_of(state) == [
        shown[0],
        *(line for n in numbers for line in (*shown[2 * n - 1 : 2 * n + 1], marked[n - 1])),
        ("assistant", "teacher", "Well done. [END_EXAM]"),
    ]
    assert (state.status, state.reason, state.handoffs) == ("completed", "signal:[END_EXAM]", 2 * ROUNDS)
