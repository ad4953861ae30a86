"""Laws 3 and 4: a process is killed at every boundary of its run, and another one goes on.

The story has tools of both kinds, a group, a question and its answer. `campaign.crash` is the judge.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from campaign.crash import CHILD, KILLED, Life, Nursery, Trial, faults, nursery
from campaign.story import DELEGATED, ENTRUSTED, NESTED, SHORT, random_story, story_in
from tests.campaign.planted_bugs import BUGS

# The tests below share the boundaries between them, so that two cores can work.
LANES = 4


@pytest.fixture(scope="module")
def started() -> Iterator[Nursery]:
    with nursery() as opened:
        yield opened


@pytest.fixture(scope="module")
def calm(started: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Nobody dies."""
    trial = Trial(started, tmp_path_factory.mktemp("calm"), SHORT)
    assert trial.live(Life()) == 0, trial.errors()
    return trial


@pytest.fixture(scope="module")
def paused(started: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that waits for its answer."""
    trial = Trial(started, tmp_path_factory.mktemp("paused"), SHORT)
    assert trial.live(Life(step="start")) == 0, trial.errors()
    assert trial.result()[0] == "paused"
    return trial.folder


def test_undisturbed_the_story_ends_and_the_judge_is_content(calm: Trial) -> None:
    assert calm.result()[:2] == ["completed", "signal:[END]"]
    assert faults(calm, calm.result()) == []


@pytest.mark.parametrize("lane", range(LANES))
def test_a_death_at_any_boundary_of_the_start(started: Nursery, calm: Trial, tmp_path: Path, lane: int) -> None:
    n = lane + 1
    while True:
        trial = Trial(started, tmp_path / str(n), SHORT)
        code = trial.live(Life(crash_at=n, step="start"))
        trial.live(Life())
        assert faults(trial, calm.result()) == [], f"crash at {n}"
        if code == 0:
            break
        n += LANES
    assert n > 40, "a story this short has at least as many boundaries"


@pytest.mark.parametrize("lane", range(LANES))
def test_a_death_at_any_boundary_of_the_resume(
    started: Nursery, calm: Trial, paused: Path, tmp_path: Path, lane: int
) -> None:
    n = lane + 1
    while True:
        trial = resumed(started, paused, tmp_path / str(n))
        code = trial.live(Life(crash_at=n))
        trial.live(Life())
        assert faults(trial, calm.result()) == [], f"crash at {n}"
        if code == 0:
            break
        n += LANES
    assert n > 15, "a story this short has at least as many boundaries"


def resumed(started: Nursery, paused: Path, folder: Path) -> Trial:
    shutil.copytree(paused, folder)
    trial = Trial(started, folder, SHORT)
    trial.codes.append(0)
    return trial


@pytest.mark.parametrize("first", range(2, 74, 3))
def test_deaths_while_recovering_from_a_death(started: Nursery, calm: Trial, tmp_path: Path, first: int) -> None:
    for then in (3 + first % 5, 9 + first % 7):
        trial = Trial(started, tmp_path / str(then), SHORT)
        trial.live(Life(crash_at=first))
        trial.live(Life(crash_at=then))
        trial.live(Life(crash_at=2))
        trial.live(Life())
        assert faults(trial, calm.result()) == [], f"crash at {first}, then at {then}, then at 2"


@pytest.fixture(scope="module")
def nested_calm(started: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    trial = Trial(started, tmp_path_factory.mktemp("nested"), NESTED)
    assert trial.live(Life()) == 0, trial.errors()
    return trial


def test_undisturbed_a_tree_of_runs_ends_and_the_judge_is_content(nested_calm: Trial) -> None:
    assert nested_calm.result()[:2] == ["completed", "signal:[END]"]
    assert faults(nested_calm, nested_calm.result()) == []


@pytest.mark.parametrize("lane", range(LANES))
def test_a_death_at_any_boundary_of_a_tree_of_runs(
    started: Nursery, nested_calm: Trial, tmp_path: Path, lane: int
) -> None:
    """Among them: while two children work and one waits."""
    n = lane + 1
    while True:
        trial = Trial(started, tmp_path / str(n), NESTED)
        code = trial.live(Life(crash_at=n))
        if lane % 2:
            trial.live(Life(crash_at=7 + n % 11))
        trial.live(Life())
        assert faults(trial, nested_calm.result()) == [], f"crash at {n}"
        if code == 0:
            break
        n += LANES
    assert n > 80, "a story of five runs has at least as many boundaries"


@pytest.fixture(scope="module")
def delegated_calm(started: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    trial = Trial(started, tmp_path_factory.mktemp("delegated"), DELEGATED)
    assert trial.live(Life()) == 0, trial.errors()
    return trial


def test_undisturbed_a_conversation_ends_and_the_judge_is_content(delegated_calm: Trial) -> None:
    assert delegated_calm.result()[:2] == ["completed", "terminal_agent"]
    assert faults(delegated_calm, delegated_calm.result()) == []


@pytest.mark.parametrize("lane", range(LANES))
def test_a_death_at_any_boundary_of_a_conversation(
    started: Nursery, delegated_calm: Trial, tmp_path: Path, lane: int
) -> None:
    """Among them: while a child waits for its parent, another for a person, and a report is being sent back."""
    n = lane + 1
    while True:
        trial = Trial(started, tmp_path / str(n), DELEGATED)
        code = trial.live(Life(crash_at=n))
        if lane % 2:
            trial.live(Life(crash_at=7 + n % 11))
        trial.live(Life())
        assert faults(trial, delegated_calm.result()) == [], f"crash at {n}"
        if code == 0:
            break
        n += LANES
    assert n > 60, "a trip of three agents has at least as many boundaries"


TRAVEL = story_in(Path(__file__).parents[2] / "examples" / "travel", answer="5")


@pytest.fixture(scope="module")
def travel_calm(started: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    trial = Trial(started, tmp_path_factory.mktemp("travel"), TRAVEL)
    assert trial.live(Life()) == 0, trial.errors()
    return trial


def test_undisturbed_the_trip_of_the_example_ends_and_the_judge_is_content(travel_calm: Trial) -> None:
    assert travel_calm.result()[:2] == ["completed", "terminal_agent"]
    assert faults(travel_calm, travel_calm.result()) == []


@pytest.mark.parametrize("lane", range(LANES))
def test_a_death_at_any_boundary_of_the_trip_of_the_example(
    started: Nursery, travel_calm: Trial, tmp_path: Path, lane: int
) -> None:
    """Among them: while the planner's model selects children, and while it judges a report."""
    n = lane + 1
    while True:
        trial = Trial(started, tmp_path / str(n), TRAVEL)
        code = trial.live(Life(crash_at=n))
        if lane % 2:
            trial.live(Life(crash_at=5 + n % 7))
        trial.live(Life())
        assert faults(trial, travel_calm.result()) == [], f"crash at {n}"
        if code == 0:
            break
        n += LANES
    assert n > 40, "a trip has at least as many boundaries"


@pytest.fixture(scope="module")
def entrusted_calm(started: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    trial = Trial(started, tmp_path_factory.mktemp("entrusted"), ENTRUSTED)
    assert trial.live(Life()) == 0, trial.errors()
    return trial


def test_undisturbed_a_conversation_with_crews_ends_and_the_judge_is_content(entrusted_calm: Trial) -> None:
    assert entrusted_calm.result()[:2] == ["completed", "terminal_agent"]
    assert faults(entrusted_calm, entrusted_calm.result()) == []


@pytest.mark.parametrize("lane", range(LANES))
def test_a_death_at_any_boundary_of_a_conversation_with_crews(
    started: Nursery, entrusted_calm: Trial, tmp_path: Path, lane: int
) -> None:
    """Among them: while a crew below a crew pays, another waits for a person, and a crew is told to work again."""
    n = lane + 1
    while True:
        trial = Trial(started, tmp_path / str(n), ENTRUSTED)
        code = trial.live(Life(crash_at=n))
        if lane % 2:
            trial.live(Life(crash_at=7 + n % 11))
        trial.live(Life())
        assert faults(trial, entrusted_calm.result()) == [], f"crash at {n}"
        if code == 0:
            break
        n += LANES
    assert n > 80, "a story of four runs has at least as many boundaries"


@pytest.mark.parametrize("seed", range(6))
def test_deaths_in_stories_drawn_at_random(started: Nursery, tmp_path: Path, seed: int) -> None:
    calm = Trial(started, tmp_path / "calm", random_story(seed))
    calm.live(Life())
    assert faults(calm, calm.result()) == []
    trial = Trial(started, tmp_path / "killed", random_story(seed))
    for n in (7, 11, 5):
        trial.live(Life(crash_at=n))
    trial.live(Life())
    assert faults(trial, calm.result()) == []


def test_a_whole_new_process_dies_and_recovers_as_a_fork_does(calm: Trial, tmp_path: Path) -> None:
    (tmp_path / "story").write_bytes(SHORT.encoded())

    def process(generation: int, crash_at: int) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "INTERLOCK_CRASH_AT": str(crash_at), "PYTHONPATH": "."}
        command = [sys.executable, str(CHILD), str(tmp_path), str(generation), "resume"]
        root = CHILD.parent.parent.parent
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, check=False)

    first = process(1, 20)
    assert first.returncode == KILLED
    assert "stopped at" in first.stderr
    second = process(2, 0)
    assert second.returncode == 0, second.stderr
    assert '"completed"' in second.stdout
    assert calm.result()[4] in second.stdout


# The judge can tell


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(started: Nursery, calm: Trial, tmp_path: Path, bug: str) -> None:
    def complaints() -> Iterator[str]:
        for first, then in product(range(5, 70), (12, 13)):
            trial = Trial(started, tmp_path / f"{first}-{then}", SHORT)
            for crash_at in (first, then, 0):
                trial.live(Life(crash_at=crash_at, planted=bug))
            yield from faults(trial, calm.result())

    assert any(BUGS[bug][1] in complaint for complaint in complaints())


def spoilt(calm: Trial, folder: Path) -> Trial:
    shutil.copytree(calm.folder, folder)
    trial = Trial(calm.nursery, folder, SHORT)
    trial.codes.append(0)
    return trial


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("said.1", '["stored", "r", 4, 12345]', "acknowledged the record"),
        ("said.1", '["answered", "r:9.9", "Oslo"]', "acknowledged the answer"),
        ("world", '[1, "pay", "r:99.0", "1"]', "more than once"),
    ],
)
def test_the_judge_finds_what_was_lost_or_done_twice(
    calm: Trial, tmp_path: Path, file: str, line: str, complaint: str
) -> None:
    trial = spoilt(calm, tmp_path / "spoilt")
    with (trial.folder / file).open("a", encoding="utf-8") as opened:
        opened.write(line + "\n")
    assert complaint in " ".join(faults(trial, calm.result()))


def test_the_judge_finds_a_call_that_was_made_again(calm: Trial, tmp_path: Path) -> None:
    trial = spoilt(calm, tmp_path / "spoilt")
    trial.codes.append(0)
    call: Any = trial.world()[0][2]
    result = (trial.folder / "said.1").read_text("utf-8").splitlines()[-1]
    (trial.folder / "said.2").write_text(f'["had", ["{call}"]]\n{result}\n', "utf-8")
    with (trial.folder / "world").open("a", encoding="utf-8") as opened:
        opened.write(f'[2, "model", "{call}", "a 1"]\n')
    assert "although its answer was in the journal" in " ".join(faults(trial, calm.result()))
