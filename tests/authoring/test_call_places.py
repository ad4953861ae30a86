"""Places in code: precise with the source, the line of the call without it."""

from pathlib import Path

from interlock import Agent, Crew, UnsoundCrew

CODE = """
from interlock import Agent, Crew
import interlock

def make(**keys):
    return Agent(
        "a", **keys)

ü = {"max_handofs": 3}; broken = lambda: Crew("ü", [Agent("a", is_terminal=True)], settings={"max_handofs": 1})
spread = lambda: Crew("c", [make(is_terminal=True, temperature="warm")])
by_module = lambda: interlock.Crew(
    "c", [interlock.Agent("a", is_terminal=True,
        temperature="warm")])
named = lambda: Crew("c", [Agent("a", is_terminal=True)],
    settings=ü)
"""


def place(code: str, file: str, name: str) -> tuple[str, int, int]:
    names: dict[str, object] = {}
    exec(compile(code, file, "exec"), names)
    build = names[name]
    assert callable(build)
    try:
        build()
    except UnsoundCrew as unsound:
        (problem,) = (problem for problem in unsound.problems if problem.severity == "error")
        return problem.file, problem.line, problem.column
    raise AssertionError("the crew is broken")


def test_a_problem_names_line_and_column_of_an_entry(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(CODE, "utf-8")
    line = CODE.splitlines()[8]
    assert place(CODE, str(file), "broken") == (str(file), 9, line.rindex('"max_handofs"') + 1)
    assert place(CODE, str(file), "by_module") == (str(file), 13, 21)


def test_what_is_not_written_in_the_call_has_the_place_of_the_call(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(CODE, "utf-8")
    assert place(CODE, str(file), "spread") == (str(file), 6, 12)
    assert place(CODE, str(file), "named")[1] == 15


def test_without_the_source_the_line_of_the_call_is_named() -> None:
    assert place(CODE, "<console>", "broken") == ("<console>", 9, 1)


def test_a_file_that_changed_since_it_was_imported_is_not_read_wrongly(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text("(((", "utf-8")
    assert place(CODE, str(file), "by_module")[:2] == (str(file), 12)


def test_an_agent_of_another_module_is_named_by_its_own_file(tmp_path: Path) -> None:
    file = tmp_path / "agents.py"
    text = 'from interlock import Agent\nclerk = Agent("clerk",\n    on={"[NEXT]": "nobody"})\n'
    file.write_text(text, "utf-8")
    names: dict[str, object] = {}
    exec(compile(text, str(file), "exec"), names)
    clerk = names["clerk"]
    assert isinstance(clerk, Agent)
    try:
        Crew("c", [clerk])
    except UnsoundCrew as unsound:
        found = [(p.code, p.file, p.line) for p in unsound.problems if p.severity == "error"]
    assert found == [("unknown-target", str(file), 3)]
