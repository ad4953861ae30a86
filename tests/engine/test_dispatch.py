"""Whatever may come in, and whatever may follow, has somebody who deals with it."""

from typing import get_args

from interlock.engine import run
from interlock.engine.events import IncomingEvent
from interlock.engine.moves import Move


def test_every_incoming_event_is_received() -> None:
    assert set(run._EVENT_HANDLERS) == set(get_args(IncomingEvent))


def test_every_move_is_carried_out() -> None:
    assert set(run._MOVE_HANDLERS) == set(get_args(Move))
