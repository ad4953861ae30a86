"""kill -9 between decisions and calls: nothing denied runs, nothing approved runs twice, no replay calls a hook."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from interlock.engine.effects import RunTool
from interlock.engine.events import HooksDecided
from interlock.runtime.calls.approvals import ApprovalDecisions
from interlock.runtime.calls.hook_checks import HookChecks
from interlock.runtime.calls.tool_calls import ToolCalls
from interlock.runtime.live_run import LiveRun
from tests.campaign import approvals_child as child
from tests.campaign import needs_child
from tests.campaign.approvals_story import approval_lives, story_of
from tests.campaign.needs_story import NeedyLives

STRIDE = 36


@pytest.fixture(scope="module")
def lives() -> Iterator[NeedyLives]:
    made = approval_lives()
    yield made
    made.close()


def test_undisturbed_every_call_that_was_approved_runs_once(lives: NeedyLives, tmp_path: Path) -> None:
    assert story_of(lives, tmp_path) == ([], False)


@pytest.mark.parametrize("lane", range(3))
def test_a_death_between_a_decision_and_its_call(lives: NeedyLives, tmp_path: Path, lane: int) -> None:
    """A lane: some boundaries of the first program, and an early one of the program that finds its run."""
    crash_at, died = 1 + lane * STRIDE // 3, True
    while died:
        wrong, died = story_of(lives, tmp_path / str(crash_at), crash_at, 1 + crash_at % 11)
        assert not wrong, f"killed at {crash_at}"
        crash_at += STRIDE
    assert crash_at > 150, "there are many boundaries"


class Planted:
    """The same story in forks of this process, with a bug that was planted in it."""

    def live(self, folder: Path, role: str, crash_at: int = 0) -> int:
        return needs_child.live_once(folder, role, crash_at, child.ROLES)


def faults_of_some(folder: Path, crash_at: int) -> Iterator[str]:
    """What the story finds, death by death, from shortly before the boundary where the bug shows."""
    died = True
    while died:
        wrong, died = story_of(Planted(), folder / str(crash_at), crash_at)  # type: ignore[arg-type]
        yield from wrong
        crash_at += 1


def test_a_denied_call_that_runs_after_a_crash_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_undecided = ApprovalDecisions.is_undecided
    monkeypatch.setattr(
        ApprovalDecisions,
        "is_undecided",
        lambda self, live, effect: live.row.epoch == 1 and is_undecided(self, live, effect),
    )
    assert any("was denied and ran" in each for each in faults_of_some(tmp_path, 5))


def test_an_approved_call_that_runs_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToolCalls, "can_run_again", lambda *_: True)
    assert any("ran 2 times" in each for each in faults_of_some(tmp_path, 97))


def test_a_hook_that_is_asked_again_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before_tool = HookChecks.before_tool

    async def ask_again(self: HookChecks, live: LiveRun, effect: RunTool) -> HooksDecided | None:
        found = await before_tool(self, live, msgspec.structs.replace(effect, hooked=False))
        return None if effect.hooked else found

    monkeypatch.setattr(HookChecks, "before_tool", ask_again)
    assert any("was decided, and asked again" in each for each in faults_of_some(tmp_path, 178))
