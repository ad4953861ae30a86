"""Wake and sleep broadcasts without subscribers: one small record, from which readers get the broadcasts.

Rule 1: readers see the same broadcasts as if each had been stored: ids, types, order and time.
"""

import msgspec

from interlock.broadcast.naming import id_in_series, sleep_type, wake_type
from interlock.broadcast.record import SYSTEM, Broadcast


class PresenceChange(msgspec.Struct, frozen=True, array_like=True):
    """The agents that fell asleep and woke with one record; "" if an agent did not, because it works elsewhere.

    `name` is the prefix of the ids, `place` their position in the series.
    """

    name: str
    place: int
    at: int
    slept: tuple[str, ...]
    woken: tuple[str, ...]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(PresenceChange)


def encode_presence(lifecycle: PresenceChange) -> bytes:
    """The change as JSON that begins with `["`, then the name."""
    return _encoder.encode(lifecycle)


def decode_presence(body: bytes) -> PresenceChange:
    """Reads a change; `ValueError` if the body is not one."""
    return _decoder.decode(body)


def broadcasts_of(lifecycle: PresenceChange) -> list[Broadcast]:
    """The broadcasts in order: sleep before wake."""
    types = [sleep_type(agent) if agent else "" for agent in lifecycle.slept]
    types += [wake_type(agent) if agent else "" for agent in lifecycle.woken]
    return [
        Broadcast(
            id=id_in_series(lifecycle.name, lifecycle.place, n), type=kind, source=SYSTEM, created_at=lifecycle.at
        )
        for n, kind in enumerate(types)
        if kind
    ]
