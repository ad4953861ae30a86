"""A crew's own tests on disk: `tests/*.yaml` in its folder, one per file."""

from pathlib import Path

import msgspec

from interlock.adapters.crews.script_files import read_plain_yaml, read_script
from interlock.adapters.files.contained_folder import ContainedFolder, UnreadablePath
from interlock.adapters.models.scripted_model import ScriptedAnswer
from interlock.errors import UsageError

FOLDER = "tests"


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected result; keys that are not given are not compared.

    `turns` are those of the crew itself, or of all crews if one is written as `sub-crew/agent`.
    """

    turns: tuple[str, ...] | None = None
    status: str | None = None
    reason: str | None = None
    output_contains: str | None = None


class CrewTest(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    input: str
    script: dict[str, list[ScriptedAnswer | str]]
    answers: tuple[str, ...]
    expect: Expectation


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test of a crew. `answers` resume the run, one per pause."""

    expect: Expectation
    script: dict[str, list[ScriptedAnswer | str]] | str
    input: str = ""
    description: str = ""
    answers: tuple[str, ...] = ()


def read_crew_tests(crew: Path) -> list[CrewTest]:
    """The tests of the crew in this folder, or of this crew file, by name; raises `UsageError` with a fault."""
    folder = (crew if crew.is_dir() else crew.parent) / FOLDER
    files = [file for file in sorted(folder.glob("*")) if file.suffix in (".yaml", ".yml")]
    if not files:
        raise UsageError(
            f"there are no tests in {folder}; 'interlock runs script RUN --as-test' creates one from a run"
        )
    return [_read(file, ContainedFolder(folder.parent)) for file in files]


def _read(file: Path, crew: ContainedFolder) -> CrewTest:
    try:
        found = msgspec.convert(read_plain_yaml(file), _File)
    except msgspec.ValidationError as error:
        raise UsageError(f"{file} is not a test of a crew: {error}") from error
    script = _script(found.script, file, crew) if isinstance(found.script, str) else found.script
    return CrewTest(name=file.stem, input=found.input, script=script, answers=found.answers, expect=found.expect)


def _script(name: str, file: Path, crew: ContainedFolder) -> dict[str, list[ScriptedAnswer | str]]:
    """The path of a script: relative to the test, and inside the crew's folder."""
    try:
        return read_script(crew.resolve(f"{FOLDER}/{name}"))
    except UnreadablePath as refusal:
        raise UsageError(f"{file}: script '{name}' {refusal}") from refusal
