"""A crew of version 1.0 and what `migrate` makes of it do the same: the journals differ in the crew they name alone."""

import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Interlock
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.crews.crew_migration import migration_of
from interlock.adapters.crews.crew_test_files import CrewTest, Expectation, read_crew_tests
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition, CrewSettings
from interlock.testing import ManualClock, ScriptedModel, simulate
from tests.engine.test_seed_001 import answer, completed, question, registered

QUIZ = Path("examples/quiz-exam")

# Marks in the middle of a reply, undeclared signals, an ending that is a route, a mark that is only noted.
LIBERTIES = """\
version: 1.0
name: liberties
entry_point: asker
agents:
  - id: asker
  - id: doubter
  - id: closer
routing:
  signals:
    asker:
      - {signal: "[CÂU HỎI]", target: doubter}
      - {signal: "[END]", target: closer}
      - {signal: "[WAIT]", target: ""}
    doubter:
      - {signal: "[OK]", target: ""}
      - {signal: "[BOTH]", target: pair}
    closer:
      - {signal: "[XONG]", target: ""}
  defaults: {doubter: asker}
  parallel_groups:
    pair: {agents: [asker, closer], next_agent: asker}
settings: {max_handoffs: 9}
"""
SCRIPT: dict[str, list[Any]] = {
    "asker": [
        "First [câu_hỏi], then more.",
        "Let me ask. [WAIT] I mean it.",
        "So be it. [CÂU HỎI]\nbye",
        "in the group [END]",
        "That is [END] of it.",
    ],
    "doubter": ["Noted [OK], no more.", "[BOTH] of you!"],
    "closer": ["in the group", "All said [XONG] and done."],
}


def migrated(folder: Path) -> CrewDefinition:
    for file, data in migration_of(folder, read_crew(folder)).files:
        file.real.write_bytes(data)
    return load_definition(folder)


def liberties(folder: Path) -> Path:
    folder.mkdir()
    (folder / "crew.yaml").write_text(LIBERTIES, "utf-8")
    return folder


def quiz_of_the_seed(folder: Path) -> Path:
    folder.mkdir()
    return completed(folder)


def quiz_exam(folder: Path) -> Path:
    return Path(shutil.copytree(QUIZ, folder))


def both(folder: Path, make: Any) -> tuple[CrewDefinition, CrewDefinition]:
    """The crew before and after; both are named after the same folder."""
    made = make(folder / "crew")
    before = load_definition(made)
    after = migrated(made)
    assert (before.version, after.version) == ("1.0", "2.0")
    return before, after


async def journal(folder: Path, crew: CrewDefinition, test: CrewTest) -> list[Any]:
    """Everything that was journalled, public or not, but for the name of the crew's stored copy."""

    async with Interlock(folder, models=ScriptedModel(test.script), clock=ManualClock()) as box:
        result = await (await box.start(crew, test.input, run_id="same")).result()
        for given in test.answers:
            assert result.status == "paused"
            result = await (await box.resume("same", given, token=result.token)).result()
        assert (result.status, result.reason) == (test.expect.status, test.expect.reason)
        records = await box.journal.records("same")
    return list(map(without_crew, [event for record in records for event in msgspec.to_builtins(record)["events"]]))


def without_crew(event: Any) -> Any:
    if event["type"] == "run.started":
        assert re.fullmatch(r"[0-9a-f]{64}", event["crew_sha"])
    return {key: value for key, value in event.items() if key != "crew_sha"}


SEED = CrewTest(
    name="seed",
    input="Start quiz",
    script={
        "teacher": [question(1), question(2), "Well done. [END]"],
        "student": [answer(1), answer(2)],
        "reporter": [registered(1), registered(2), "Report saved [DONE]"],
    },
    answers=(),
    expect=Expectation(status="completed", reason="signal:[DONE]"),
)
STORY = CrewTest(
    name="liberties",
    input="Go [END]",
    script=SCRIPT,
    answers=("yes",),
    expect=Expectation(status="completed", reason="signal:[XONG]"),
)
CASES = [(liberties, STORY), (quiz_of_the_seed, SEED), *((quiz_exam, test) for test in read_crew_tests(QUIZ))]


@pytest.mark.parametrize(("make", "test"), CASES, ids=[test.name for _, test in CASES])
async def test_the_same_script_gives_the_same_journal(tmp_path: Path, make: Any, test: CrewTest) -> None:
    before, after = both(tmp_path, make)
    old, new = await journal(tmp_path / "old", before, test), await journal(tmp_path / "new", after, test)
    assert len(old) > 10
    assert new == old


@pytest.mark.parametrize("make", [liberties, quiz_of_the_seed, quiz_exam])
def test_whatever_models_say_and_whatever_fails_the_journal_is_the_same(tmp_path: Path, make: Any) -> None:
    before, after = both(tmp_path, make)
    for seed in range(10):
        one, other = (simulate(crew, seed=seed).journal for crew in (before, after))
        assert _without_sha(one) == _without_sha(other)


def _without_sha(journal: bytes) -> bytes:
    text, count = re.subn(rb'"crew_sha":"[0-9a-f]{64}"', b"", journal)
    assert count <= 1
    return text


def test_without_the_settings_that_are_written_out_the_journals_differ(tmp_path: Path) -> None:
    """What the comparisons above are worth."""
    before, after = both(tmp_path, liberties)
    bare = msgspec.structs.replace(
        after, settings=msgspec.structs.replace(after.settings, signal_position=CrewSettings().signal_position)
    )
    pairs = [[_without_sha(simulate(crew, seed=seed).journal) for crew in (before, bare)] for seed in range(5)]
    assert any(one != other for one, other in pairs)
