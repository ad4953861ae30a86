"""Ids and types that follow from other names.

Rule 1: what a run announces has an id that follows from the run and the place in it, so that a replay, or a second try
after a crash, announces the same thing. It has the form of a cuid2: 24 letters and digits, a letter first.
"""

import unicodedata
from hashlib import sha3_256

ID_CHARS = 24

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def derived_id(key: str) -> str:
    """The same for the same key, on every machine."""
    number = int.from_bytes(sha3_256(key.encode("utf-8", "surrogatepass")).digest())
    number, letter = divmod(number, 26)
    text = _DIGITS[10 + letter]
    while len(text) < ID_CHARS:
        number, digit = divmod(number, 36)
        text += _DIGITS[digit]
    return text


def is_broadcast_id(text: str) -> bool:
    return 2 <= len(text) <= 32 and text[0] in _DIGITS[10:] and all(char in _DIGITS for char in text)


def crew_type(crew: str, signal: str) -> str:
    """What a broadcast-type mark of a crew publishes: `[BUILD DONE]` of crew ci is `crew:ci:build_done`."""
    name = unicodedata.normalize("NFC", signal.strip("[]")).lower().replace(" ", "_")
    return f"crew:{crew}:{name}"


def wake_type(agent: str) -> str:
    return f"agent:{agent}:wake"


def sleep_type(agent: str) -> str:
    return f"agent:{agent}:sleep"
