"""Types of the standard library, a NumPy docstring, and annotations that are text."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from interlock import ToolContext


class Room(Enum):
    SINGLE = "single"
    DOUBLE = "double"


class Stay(NamedTuple):
    booking: UUID
    until: date
    price: Decimal
    invoice: Path


def book_room(
    booking: UUID, arrival: date, nights: int, rate: Decimal, room: Room | None = None, *, context: ToolContext
) -> Stay:
    """Book a room.

    Parameters
    ----------
    booking : UUID
        The number of the booking.
    arrival : date
        The first day.
    rate : Decimal
        The price of a night.
    """
    price = rate * nights * (2 if room is Room.DOUBLE else 1)
    return Stay(booking, arrival + timedelta(days=nights), price, Path("invoices") / context.run)


TOOLS = [book_room]
