"""What is written for people is true: what pages show is what is printed, the reference and the figures are current."""

import asyncio
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from docs.figures import with_figures
from docs.generate import REFERENCE, pages
from docs.outputs import PAGES, played
from interlock import Crew, Interlock, load_crew, load_host
from interlock.adapters.crew_files import read_crew
from interlock.adapters.script_files import read_script
from interlock.adapters.tool_imports import imported_tools
from interlock.cli.live_graph import Map
from interlock.cli.live_view import page
from interlock.cli.main import interlock
from interlock.cli.progress import Progress
from interlock.compose.crews import host_settings
from interlock.crew.codes import CODES
from interlock.server.problems import CODES as REQUEST_CODES
from interlock.testing import Answer, ManualClock, ScriptedModel, simulate_many

README = Path("README.md").read_text("utf-8")
DESK = Path("examples/desk")


@pytest.mark.parametrize("file", PAGES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_commands_and_programs_of_a_page_print_what_it_shows(file: Path, tmp_path: Path) -> None:
    text = file.read_text("utf-8")
    assert played(text, tmp_path) == text, "if the page is wrong and not the code: python -m docs.outputs"


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = "```text name\nword\n```\n```console\n$ cat name\nanother\n```\n```python\nprint(1)\n```\n```text\n2\n```\n"
    assert played(page, tmp_path) == page.replace("another", "word").replace("2\n", "1\n")


def test_ids_differ_and_a_page_keeps_those_it_shows(tmp_path: Path) -> None:
    shown, real = "0123456789abcdef0123", "0fedcba9876543210fed"
    page = f"```console\n$ echo run {real[:10]}''{real[10:]}\nrun {shown}\n$ echo {shown} | tr 0-9a-f a-p\nx\n```\n"
    letters = real.translate(str.maketrans("0123456789abcdef", "abcdefghijklmnop"))
    assert played(page, tmp_path) == page.replace("\nx\n", f"\n{letters}\n")


def test_the_readmes_view_is_what_the_live_view_paints_half_way() -> None:
    shown = re.search(r"^```text live\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert shown is not None
    crew = load_crew(DESK, host=load_host(DESK / "interlock.toml"))
    progress = Progress()
    for event in asyncio.run(desk_events(crew)):
        progress.take(event)
        if event["type"] == "model.called" and progress.usage.calls == 3:
            break
    painted = page(Map(crew), crew, progress, (84, len(shown[1].splitlines())), progress.elapsed_ms(0))
    assert without_time("\n".join(row.plain.rstrip() for row in painted)) == without_time(shown[1].rstrip())


async def desk_events(crew: Crew) -> list[dict[str, Any]]:
    with TemporaryDirectory() as data:
        host, clock = host_settings(DESK / "interlock.toml"), ManualClock()
        model = ScriptedModel({a: [_at_once(e) for e in each] for a, each in read_script(DESK / "script.yaml").items()})
        async with Interlock(data, host=host, models=model, clock=clock) as box:
            run = await box.start(crew, "My lamp never came, order A-17")
            return [event async for event in run.events()]


def _at_once(answer: Answer | str) -> Answer | str:
    return answer if isinstance(answer, str) else msgspec.structs.replace(answer, delay_seconds=0.0)


def without_time(screen: str) -> str:
    return re.sub(r"\b0[0-9a-f]{19}\b|[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]|\d+\.\d s", "*", screen)


def test_the_readmes_figures_are_those_of_the_last_results() -> None:
    assert with_figures(README) == README, "run `make docs`"
    assert README.count("\n- MISSED: ") == Path("bench/RESULTS.md").read_text("utf-8").count("\n- MISSED: ")


def test_the_desk_passes_its_own_tests_and_takes_every_route() -> None:
    done = CliRunner().invoke(interlock, ["test", str(DESK), "--config", str(DESK / "interlock.toml")])
    assert (done.exit_code, "never:" in done.stdout) == (0, False), done.stdout


def test_the_desk_keeps_the_laws_whatever_happens() -> None:
    crew = load_crew(DESK, host=load_host(DESK / "interlock.toml"))
    tools = imported_tools(host_settings(DESK / "interlock.toml"))
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


# Hyphenated words on lines of their own that are no codes of problems; those of requests stand in a table of their own.
NOT_CODES = {"openai-compatible", *REQUEST_CODES}


def test_every_link_in_the_pages_leads_somewhere() -> None:
    for file in [Path("README.md"), Path("CONTRIBUTING.md"), *Path("docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", file.read_text("utf-8")):
            assert (file.parent / target).exists(), f"{file}: {target}"


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
