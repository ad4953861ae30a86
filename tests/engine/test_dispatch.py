"""Whatever may come in, and whatever may follow, has somebody who deals with it."""

from typing import get_args

from interlock.engine import run
from interlock.engine.events import IncomingEvent
from interlock.engine.stages import Stage


def test_every_incoming_event_is_received() -> None:
    assert set(run._EVENT_HANDLERS) == set(get_args(IncomingEvent))


def test_every_stage_is_carried_out() -> None:
    assert set(run._STAGE_HANDLERS) == set(get_args(Stage))
