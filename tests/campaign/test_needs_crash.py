"""kill -9 at the boundaries of a run that needs its program: nobody without everything drives it, nothing is lost, and
no call that has an answer is made again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.adapters.crash_points import CRASH_EXIT_CODE
from interlock.compose.given.run_resources import RunResources
from tests.campaign import needs_child
from tests.campaign.needs_story import NeedyLives, story_of


@pytest.fixture(scope="module")
def lives() -> Iterator[NeedyLives]:
    made = NeedyLives()
    yield made
    made.close()


@pytest.mark.parametrize("first", range(3))
def test_a_run_is_driven_only_where_everything_is_given(lives: NeedyLives, tmp_path: Path, first: int) -> None:
    """A lane: every twelfth boundary; `python -m campaign.needs` dies at each, in the processes after it too."""
    crash_at, died = 1 + 4 * first, True
    while died:
        wrong, died = story_of(lives, tmp_path / str(crash_at), crash_at)
        assert not wrong, f"killed at {crash_at}"
        crash_at += 12
    assert crash_at > 30, "there are many boundaries"


def test_a_process_that_drives_without_asking_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nobody asks what a run needs."""
    monkeypatch.setattr(RunResources, "require_supplied", lambda *_: None)
    folder = tmp_path / "planted"
    needs_child.write_crews(folder)
    assert needs_child.live_once(folder, "begin", 20) == CRASH_EXIT_CODE
    assert needs_child.live_once(folder, "serve", 0) != 0 or needs_child.live_once(folder, "resume", 0) != 0
