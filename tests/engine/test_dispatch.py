"""Whatever may come in, and whatever may follow, has somebody who deals with it."""

from typing import get_args

from interlock.engine import step
from interlock.engine.events import IncomingEvent
from interlock.engine.moves import Move


def test_every_incoming_event_is_received() -> None:
    assert set(step._RECEIVED) == set(get_args(IncomingEvent))


def test_every_move_is_carried_out() -> None:
    assert set(step._CARRIED_OUT) == set(get_args(Move))
