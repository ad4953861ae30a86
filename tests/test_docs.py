"""The pages are true: outputs are what is printed, generated parts are current, links lead somewhere."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from docs.blocks import PAGES as BLOCK_PAGES
from docs.blocks import code_links, current_page, defines, layer_line, with_blocks, with_links
from docs.generate import REFERENCE, pages
from docs.outputs import PAGES, play_page
from interlock import Interlock, load_host
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.crews.script_files import read_script
from interlock.adapters.tools.tool_imports import import_tools
from interlock.cli.main import interlock
from interlock.cli.view.live_graph import GraphLayout
from interlock.cli.view.live_view import page_rows
from interlock.cli.view.progress import Progress
from interlock.compose.crews import host_settings, load_definition
from interlock.crew.codes import CODES
from interlock.crew.definition import CrewDefinition
from interlock.server.http.problems import CODES as REQUEST_CODES
from interlock.testing import Answer, ManualClock, ScriptedModel, simulate_many

README = Path("README.md").read_text("utf-8")
DESK = Path("examples/desk")


@pytest.mark.parametrize("file", PAGES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_commands_and_programs_of_a_page_print_what_it_shows(file: Path, tmp_path: Path) -> None:
    text = file.read_text("utf-8")
    assert play_page(text, tmp_path) == text, "if the page is wrong and not the code: python -m docs.outputs"


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = "```text name\nword\n```\n```console\n$ cat name\nanother\n```\n```python\nprint(1)\n```\n```text\n2\n```\n"
    assert play_page(page, tmp_path) == page.replace("another", "word").replace("2\n", "1\n")


def test_ids_differ_and_a_page_keeps_those_it_shows(tmp_path: Path) -> None:
    shown, real = "0123456789abcdef0123", "0fedcba9876543210fed"
    page = f"```console\n$ echo run {real[:10]}''{real[10:]}\nrun {shown}\n$ echo {shown} | tr 0-9a-f a-p\nx\n```\n"
    letters = real.translate(str.maketrans("0123456789abcdef", "abcdefghijklmnop"))
    assert play_page(page, tmp_path) == page.replace("\nx\n", f"\n{letters}\n")


async def test_the_view_in_the_guide_is_what_the_live_view_paints_half_way() -> None:
    page = Path("docs/guide/runs.md").read_text("utf-8")
    shown = re.search(r"^```text live\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert shown is not None
    crew = load_definition(DESK, host=load_host(DESK / "interlock.toml"))
    progress = Progress()
    for event in await desk_events(crew):
        progress.apply_event(event)
        if event["type"] == "model.called" and progress.usage.calls == 3:
            break
    painted = page_rows(GraphLayout(crew), crew, progress, (84, len(shown[1].splitlines())), progress.working_ms(0))
    assert without_time("\n".join(row.plain.rstrip() for row in painted)) == without_time(shown[1].rstrip())


async def desk_events(crew: CrewDefinition) -> list[dict[str, Any]]:
    with TemporaryDirectory() as data:
        host, clock = host_settings(DESK / "interlock.toml"), ManualClock()
        model = ScriptedModel({a: [_at_once(e) for e in each] for a, each in read_script(DESK / "script.yaml").items()})
        async with Interlock(data, host=host, models=model, clock=clock) as box:
            run = await box.start(crew, "My lamp never came, order A-17")
            return [event async for event in box.runner.follow(run.id)]


def _at_once(answer: Answer | str) -> Answer | str:
    return answer if isinstance(answer, str) else msgspec.structs.replace(answer, delay_seconds=0.0)


def without_time(screen: str) -> str:
    return re.sub(r"\b0[0-9a-f]{19}\b|[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]|\d+\.\d s", "*", screen)


@pytest.mark.parametrize("page", BLOCK_PAGES, ids=lambda page: page.stem)
def test_generated_parts_and_links_to_code_are_current(page: Path) -> None:
    assert current_page(page) == page.read_text("utf-8"), "run `make docs`"


def test_the_figures_show_every_missed_bound() -> None:
    shown = Path("docs/figures.md").read_text("utf-8").count("\n- MISSED: ")
    assert shown == Path("bench/RESULTS.md").read_text("utf-8").count("\n- MISSED: ")


def test_the_readme_has_the_layers_of_the_tidy_test() -> None:
    assert "\n".join(layer_line()) in README


def test_a_block_or_a_link_that_lags_is_found() -> None:
    assert with_blocks("<!-- layers: x -->\nold\n<!-- end of layers -->").splitlines()[1:-1] == list(layer_line())
    moved = with_links("[`Run.apply`](../src/interlock/limits.py)", Path("docs").resolve())
    assert moved == "[`Run.apply`](../src/interlock/engine/run.py)"
    with pytest.raises(LookupError):
        with_links("[`no_such_name`](../src/interlock/engine/run.py)", Path("docs").resolve())


def test_the_five_answers_for_newcomers_name_files_and_symbols_that_exist() -> None:
    page = Path("docs/architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| (.*?) \| (.*) \|$", page.partition("## Where do I change")[2], re.MULTILINE)
    answers = {question: code_links(answer) for question, answer in rows}
    for question in FIVE_QUESTIONS:
        assert answers[question], question
        for symbol, path in answers[question]:
            assert defines((Path("docs") / path).read_text("utf-8"), symbol), (symbol, path)


FIVE_QUESTIONS = (
    "which agent goes next",
    "what a key means",
    "when a run is stored",
    "how a dead worker is noticed",
    "what the page shows for a question",
)


def glossary_words() -> list[str]:
    return re.findall(r"^- \*\*(.+?)\*\* — \S", Path("docs/glossary.md").read_text("utf-8"), re.MULTILINE)


def test_every_word_of_the_glossary_is_defined_once() -> None:
    words = [word.lower() for word in glossary_words()]
    assert sorted({word for word in words if words.count(word) > 1}) == []
    assert [word for word in GLOSSARY_NEEDS if word not in words] == []
    entries = [line for line in Path("docs/glossary.md").read_text("utf-8").splitlines() if line.startswith("- ")]
    assert len(entries) == len(words), "an entry is `- **word** — meaning`"


GLOSSARY_NEEDS = (
    "signal", "broadcast", "message", "run", "turn", "handoff", "group", "branch", "sub-crew", "child", "event",
    "effect", "journal", "record", "transition", "order", "owner", "claim", "lease", "delivery", "dead letter",
    "outbox", "wait", "token", "question", "approval", "park", "set aside", "problem", "error", "host", "box",
)  # fmt: skip


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/style.md", "docs/architecture.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(r"`((?:src|tests|docs|examples|web)/[\w./-]*)`", Path(page).read_text("utf-8"))
    assert named != []
    assert [path for path in named if not Path(path).exists()] == []


def test_the_guide_has_a_reading_order_with_every_page_once() -> None:
    text = Path("docs/guide/README.md").read_text("utf-8")
    parts = {part.partition("\n")[0]: re.findall(r"\]\(([\w-]+\.md)\)", part) for part in text.split("\n## ")[1:]}
    assert list(parts) == ["Start here", "How-to", "Concepts", "Reference"]
    assert len(parts["Start here"]) == 3
    pages_there = sorted(file.name for file in Path("docs/guide").glob("*.md") if file.name != "README.md")
    assert sorted(parts["Start here"] + parts["How-to"]) == pages_there


def test_the_desk_passes_its_own_tests_and_takes_every_route() -> None:
    done = CliRunner().invoke(interlock, ["test", str(DESK), "--config", str(DESK / "interlock.toml")])
    assert (done.exit_code, "never:" in done.stdout) == (0, False), done.stdout


def test_the_desk_keeps_the_laws_whatever_happens() -> None:
    crew = load_definition(DESK, host=load_host(DESK / "interlock.toml"))
    tools = import_tools(host_settings(DESK / "interlock.toml"))
    assert len(simulate_many(crew, seeds=range(20), tools=tools)) == 20


def test_decisions_have_a_number_each() -> None:
    """Numbers are handed out to those who work at the same time, so there may be gaps."""
    names = sorted(file.name for file in Path("docs/decisions").iterdir())
    titles = [(Path("docs/decisions") / name).read_text("utf-8").splitlines()[0] for name in names]
    numbers = [int(name[:4]) for name in names]
    assert [title.partition(".")[0] for title in titles] == [f"# {n}" for n in numbers]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", sorted(pages()))
def test_the_reference_is_current(name: str) -> None:
    assert (REFERENCE / name).read_text("utf-8") == pages()[name], "run `make docs`"


def test_every_code_in_the_source_is_documented_and_every_documented_code_is_in_the_source() -> None:
    source = "".join(path.read_text("utf-8") for path in Path("src/interlock").rglob("*.py") if path.name != "codes.py")
    assert [code for code in CODES if f'"{code}"' not in source] == []
    used = set(re.findall(r'^\s+"([a-z]+(?:-[a-z]+)+)",$', source, re.MULTILINE))
    used |= set(
        re.findall(
            r'(?:report\.at|s\.at|\.add|_add|refuse|_note)\(\s*(?:[^"()]*(?:\([^()]*\))?[^"()]*)"([a-z]+-[a-z-]+)"',
            source,
        )
    )
    assert sorted(code for code in used if code not in CODES and code not in NOT_CODES) == []


# Hyphenated words on lines of their own that are not codes of problems; codes of requests have their own table.
NOT_CODES = {"openai-compatible", *REQUEST_CODES}


def test_every_link_in_the_pages_leads_somewhere() -> None:
    links = [
        (file, target)
        for file in [Path("README.md"), Path("CONTRIBUTING.md"), *Path("docs").rglob("*.md")]
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text("utf-8"))
    ]
    assert links
    assert [f"{file}: {target}" for file, target in links if not (file.parent / target).exists()] == []


@pytest.mark.parametrize("crew", sorted(p for p in Path("examples").iterdir() if p.name != "broken"), ids=str)
def test_every_example_is_sound(crew: Path) -> None:
    config = crew / "interlock.toml"
    assert read_crew(crew, load_host(config) if config.exists() else None).is_sound


def test_every_make_target_is_explained() -> None:
    makefile = Path("Makefile").read_text("utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets is not None
    for target in targets[1].split():
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE), target
