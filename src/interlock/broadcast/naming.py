"""Ids and types that are derived from other names.

Rule 1: the id of a run's broadcast is derived from the run and the place in it, so that a replay, or a retry after a
crash, announces the same thing. It has the form of a cuid2: 24 letters and digits, a letter first.
"""

import unicodedata
from hashlib import sha3_256

ID_CHARS = 24

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# Two digits at a time, the lower one first.
_PAIRS = tuple(low + high for high in _DIGITS for low in _DIGITS)
_HALF = 36**12

# Of an id in a series; a run may wake thousands of agents at once.
NAME_CHARS = 13
PLACE_CHARS = 7
PLACES_MAX, AT_A_PLACE_MAX = 16**PLACE_CHARS, 16**4
_HEX_DIGITS = set("0123456789abcdef")


def stable_id(key: str) -> str:
    """An id that is the same for the same key on every machine."""
    number = int.from_bytes(sha3_256(key.encode("utf-8", "surrogatepass")).digest())
    number, letter = divmod(number, 26)
    rest, low = divmod(number, _HALF)
    return (_DIGITS[10 + letter] + _twelve_digits(low) + _twelve_digits(rest % _HALF))[:ID_CHARS]


def _twelve_digits(number: int) -> str:
    """Twelve digits, the lowest first, by machine-size division: this runs twice per turn."""
    number, a = divmod(number, 1296)
    number, b = divmod(number, 1296)
    number, c = divmod(number, 1296)
    number, d = divmod(number, 1296)
    number, e = divmod(number, 1296)
    return _PAIRS[a] + _PAIRS[b] + _PAIRS[c] + _PAIRS[d] + _PAIRS[e] + _PAIRS[number]


def series_name(key: str) -> str:
    """The prefix of the ids of a series."""
    return stable_id(key)[:NAME_CHARS]


def id_in_series(name: str, place: int, n: int = 0) -> str:
    """An id of the same form; ids of one series sort by their places.

    So an index has them on the same page: every turn announces two, and random ids would touch one page each.
    """
    assert place < PLACES_MAX and n < AT_A_PLACE_MAX, "there is room for all that can be"
    return f"{name}{place:07x}{n:04x}"


def place_in_series(id: str) -> int:  # noqa: A002 - ids are called id everywhere
    """The place of an id in its series; 0 if it is of no series, because places start at 1."""
    place = id[NAME_CHARS : NAME_CHARS + PLACE_CHARS]
    return int(place, 16) if len(id) == ID_CHARS and set(place) <= _HEX_DIGITS else 0


def is_broadcast_id(text: str) -> bool:
    return 2 <= len(text) <= 32 and text[0] in _DIGITS[10:] and all(char in _DIGITS for char in text)


def crew_type(crew: str, signal: str) -> str:
    """The type that a broadcast signal of a crew publishes: `[BUILD DONE]` of crew ci is `crew:ci:build_done`."""
    name = unicodedata.normalize("NFC", signal.strip("[]")).lower().replace(" ", "_")
    return f"crew:{crew}:{name}"


def wake_type(agent: str) -> str:
    return f"agent:{agent}:wake"


def sleep_type(agent: str) -> str:
    return f"agent:{agent}:sleep"
