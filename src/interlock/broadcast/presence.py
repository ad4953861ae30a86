"""Wake and sleep broadcasts without subscribers: readers derive them from who began and ended work.

Rule 1: readers see the same broadcasts as if each had been stored: ids, types, order and time.
"""

from functools import lru_cache

import msgspec

from interlock.broadcast.naming import id_in_series, series_name, sleep_type, wake_type
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


class RecordPresence(msgspec.Struct, frozen=True, array_like=True):
    """The agents that ended and that began work with a record. `quiet` are the places of those, among all of them, of
    whom there is nothing to derive: they work elsewhere too, or their broadcasts are stored.
    """

    ended: tuple[str, ...]
    begun: tuple[str, ...]
    quiet: tuple[int, ...] = ()

    @property
    def broadcast_count(self) -> int:
        """The number of broadcasts to derive."""
        return len(self.ended) + len(self.begun) - len(self.quiet)


# The runs whose names of a series are cached: live ones.
CACHED_NAMES_MAX = 10_000


@lru_cache(CACHED_NAMES_MAX)
def presence_series(run: str) -> str:
    """The prefix of the ids of the wake and sleep broadcasts of a run."""
    return series_name(f"{run}:at work")


def change_in_record(run: str, seq: int, at: int, presence: RecordPresence) -> PresenceChange:
    """What a record says about presence, with `run`, seq and time of the record."""
    agents = [*presence.ended, *presence.begun]
    for place in presence.quiet:
        agents[place] = ""
    ended = len(presence.ended)
    return PresenceChange(presence_series(run), seq, at, tuple(agents[:ended]), tuple(agents[ended:]))


_encoder = msgspec.json.Encoder()
_presence_decoder = msgspec.json.Decoder(RecordPresence)
_decoder = msgspec.json.Decoder(PresenceChange)


def encode_presence(lifecycle: PresenceChange) -> bytes:
    """The change as JSON that begins with `["`, then the name."""
    return _encoder.encode(lifecycle)


def decode_presence(body: bytes) -> PresenceChange:
    """Reads a change; `ValueError` if the body is not one."""
    return _decoder.decode(body)


def encode_record_presence(presence: RecordPresence) -> bytes:
    return _encoder.encode(presence)


def decode_record_presence(body: bytes) -> RecordPresence:
    """`ValueError` if the body is not the presence of a record."""
    return require_quiet_places(_presence_decoder.decode(body))


def require_quiet_places(presence: RecordPresence) -> RecordPresence:
    """`ValueError` if a quiet place is not there."""
    if any(not 0 <= place < len(presence.ended) + len(presence.begun) for place in presence.quiet):
        raise ValueError("a quiet place is not there")
    return presence


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
