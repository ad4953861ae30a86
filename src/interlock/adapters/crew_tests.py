"""A crew's own tests on disk: `tests/*.yaml` in its folder, one a file."""

from pathlib import Path

import msgspec

from interlock.adapters.folder import Folder, Refusal
from interlock.adapters.models.scripted import Answer
from interlock.adapters.script_files import read_plain, read_script
from interlock.errors import UsageError

FOLDER = "tests"


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must come of it; what is not said is not compared.

    `turns` are the crew's own, or, if one of them is named as `sub-crew/agent`, those of all crews.
    """

    turns: tuple[str, ...] | None = None
    status: str | None = None
    reason: str | None = None
    output_contains: str | None = None


class CrewTest(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    input: str
    script: dict[str, list[Answer | str]]
    answers: tuple[str, ...]
    expect: Expectation


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`answers` resume the run, one after the other, whenever it is paused."""

    expect: Expectation
    script: dict[str, list[Answer | str]] | str
    input: str = ""
    description: str = ""
    answers: tuple[str, ...] = ()


def read_crew_tests(crew: Path) -> list[CrewTest]:
    """The tests of the crew in this folder, or of this crew file, by name; `UsageError` says what is wrong with one."""
    folder = (crew if crew.is_dir() else crew.parent) / FOLDER
    files = [file for file in sorted(folder.glob("*")) if file.suffix in (".yaml", ".yml")]
    if not files:
        raise UsageError(f"there are no tests in {folder}; 'interlock runs script RUN --as-test' makes one of a run")
    return [_read(file, Folder(folder.parent)) for file in files]


def _read(file: Path, crew: Folder) -> CrewTest:
    try:
        found = msgspec.convert(read_plain(file), _File)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file} is not a test of a crew: {error}") from error
    script = _script(found.script, file, crew) if isinstance(found.script, str) else found.script
    return CrewTest(name=file.stem, input=found.input, script=script, answers=found.answers, expect=found.expect)


def _script(name: str, file: Path, crew: Folder) -> dict[str, list[Answer | str]]:
    """A script is named relative to the test, and lies inside the crew's folder."""
    try:
        return read_script(crew.resolve(f"{FOLDER}/{name}"))
    except Refusal as refusal:
        raise UsageError(f"{file}: script '{name}' {refusal}") from refusal
