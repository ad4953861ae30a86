"""What is written for people is true: commands in the README run and print what it shows; the reference is current."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import REFERENCE, pages
from interlock.adapters.crew_files import read_crew
from interlock.crew.codes import CODES

README = Path("README.md").read_text("utf-8")
BIN = Path(sys.executable).parent


def console_steps(text: str) -> list[tuple[str, str]]:
    """The commands of a page's console blocks, each with the output shown below it."""
    steps = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            steps.append((command, shown))
    return steps


def test_the_readmes_commands_print_what_the_readme_shows(tmp_path: Path) -> None:
    crew = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    assert crew is not None
    (tmp_path / "crew.yaml").write_text(crew[1], "utf-8")
    steps = [(command, shown) for command, shown in console_steps(README) if command.startswith("interlock")]
    assert len(steps) >= 3
    for command, shown in steps:
        done = subprocess.run(
            [BIN / "interlock", *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout == shown, command


def test_the_readmes_broken_crew_is_refused_as_the_readme_shows(tmp_path: Path) -> None:
    crew = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)
    shown = re.search(r"```text\n(crew.yaml:.*?)```", README, re.DOTALL)
    assert crew is not None
    assert shown is not None
    broken = crew[1].replace("target: writer", "target: writr").replace('      - {signal: "[DONE]"}\n', "")
    (tmp_path / "crew.yaml").write_text(broken, "utf-8")
    done = subprocess.run(
        [BIN / "interlock", "check", "crew.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, shown[1])


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


NOT_CODES = {"openai-compatible"}  # hyphenated words on lines of their own that are no codes


def test_every_link_in_the_pages_leads_somewhere() -> None:
    for page in [Path("README.md"), Path("CONTRIBUTING.md"), *Path("docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("crew", sorted(p for p in Path("examples").iterdir() if p.name != "broken"), ids=str)
def test_every_example_is_sound(crew: Path) -> None:
    assert read_crew(crew).is_sound


def test_every_make_target_is_explained() -> None:
    makefile = Path("Makefile").read_text("utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets is not None
    for target in targets[1].split():
        assert re.search(rf"^{target}:.*## \S", makefile, re.MULTILINE), target
