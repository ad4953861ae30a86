"""Enums of the state are stored as the plain strings that they replaced."""

import msgspec
import pytest

from interlock.engine.kinds import RunStatus, TimerKind, TimerPurpose, TurnKind, WaitKind, WorkStatus
from interlock.engine.run import OVER
from interlock.engine.state import Branch, ChildRun, RunState, Turn, Wait


def stored(value: object) -> str:
    return msgspec.json.encode(value).decode()


def test_a_state_is_stored_with_plain_strings() -> None:
    turn = Turn(number=1, agent="a", history=0, kind=TurnKind.TASK)
    assert stored(turn) == '{"number":1,"agent":"a","history":0,"kind":"task"}'
    assert stored(RunState(run="r", status=RunStatus.PAUSED)) == '{"run":"r","status":"paused"}'
    assert stored(Branch(member="a", status=WorkStatus.LATE)) == '{"member":"a","status":"late"}'


def test_defaults_are_left_out_before_and_after_a_restore() -> None:
    turn = '{"number":1,"agent":"a","history":0}'
    child = '{"key":"1.0","crew":"c","run":"r","input":"go","until":0}'
    assert stored(msgspec.json.decode(turn, type=Turn)) == turn
    assert stored(msgspec.json.decode(child, type=ChildRun)) == child
    assert stored(msgspec.json.decode('{"run":"r","status":"new"}', type=RunState)) == '{"run":"r"}'


@pytest.mark.parametrize(
    ("purpose", "key"),
    [
        (TimerPurpose(TimerKind.RUN), "run"),
        (TimerKind.RETRY.of(7), "retry:7"),
        (TimerKind.ACK.of("run:1:m2"), "ack:run:1:m2"),
    ],
)
def test_a_timer_s_purpose_is_read_back_from_its_key(purpose: TimerPurpose, key: str) -> None:
    assert purpose.key == key
    assert TimerPurpose.of_key(key) == purpose


def test_the_kind_of_a_wait_follows_from_its_reason() -> None:
    wait = Wait(token="t", reason=WaitKind.HELD.reason("[GO:on]"), agent="a", turn=1)
    assert wait.reason == "held:[GO:on]"
    assert wait.kind is WaitKind.HELD
    assert Wait(token="t", reason="approval", agent="a", turn=1).kind is WaitKind.APPROVAL


def test_statuses_outside_the_engine_are_plain_strings() -> None:
    assert [type(status) for status in OVER] == [str] * 4
