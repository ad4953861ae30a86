"""Waking and sleeping where nobody hears of it: one small thing a record, of which broadcasts are made for readers.

Rule 1: whoever reads sees the broadcasts that would have been kept one by one: ids, types, order and time.
"""

import msgspec

from interlock.broadcast.naming import id_in_series, sleep_type, wake_type
from interlock.broadcast.record import SYSTEM, Broadcast


class Lifecycle(msgspec.Struct, frozen=True, array_like=True):
    """Who fell asleep and who woke with one record; "" stands for who did not, being at work elsewhere.

    `name` is how the ids begin, `place` where they stand in their series.
    """

    name: str
    place: int
    at: int
    slept: tuple[str, ...]
    woken: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many broadcasts it stands for."""
        agents = self.slept + self.woken
        return len(agents) - agents.count("")


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Lifecycle)


def packed(lifecycle: Lifecycle) -> bytes:
    """JSON that begins with `["`, then the name."""
    return _encoder.encode(lifecycle)


def unpacked(body: bytes) -> Lifecycle:
    """`ValueError` if the body is not one."""
    return _decoder.decode(body)


def broadcasts_of(lifecycle: Lifecycle) -> list[Broadcast]:
    """In their order: those who slept first."""
    types = [sleep_type(agent) if agent else "" for agent in lifecycle.slept]
    types += [wake_type(agent) if agent else "" for agent in lifecycle.woken]
    return [
        Broadcast(
            id=id_in_series(lifecycle.name, lifecycle.place, n), type=kind, source=SYSTEM, created_at=lifecycle.at
        )
        for n, kind in enumerate(types)
        if kind
    ]
