"""Keys of providers, kept out of everything that leaves an adapter.

Rule 1: exact values of known keys are replaced wherever they stand; in a stream also where pieces cut them in two.
Rule 2: in what a provider says of an error, whatever looks like a key is replaced too.
"""

import re
from collections.abc import Iterable

REDACTED = "[redacted]"

# Shorter values are placeholders such as "none"; replacing them would garble replies.
KEY_CHARS_MIN = 8

# What a person needs of an error; providers' own advice fits.
ERROR_CHARS_MAX = 300

_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|AIza|key|api)[-_](?=\S*\d)[A-Za-z0-9_\-*.]{8,}|(?i:bearer)\s+\S+"
)


class KnownKeys:
    """Replaces the keys it was given."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys = tuple(sorted({key for key in keys if len(key) >= KEY_CHARS_MIN}, key=len, reverse=True))

    def hidden(self, text: str) -> str:
        for key in self.keys:
            if key in text:
                text = text.replace(key, REDACTED)
        return text

    def held_back(self, text: str) -> int:
        """How many characters at the end of the text could be the beginning of a key."""
        return max((_begun(key, text) for key in self.keys), default=0)

    def safe_line(self, text: str) -> str:
        """One short line of what a provider said, with nothing in it that looks like a key."""
        hidden = _LOOKS_LIKE_A_KEY.sub(REDACTED, self.hidden(text[: 100 * ERROR_CHARS_MAX]))
        line = " ".join("".join(char if char.isprintable() else " " for char in hidden).split())
        return line if len(line) <= ERROR_CHARS_MAX else f"{line[: ERROR_CHARS_MAX - 1]}…"


def _begun(key: str, text: str) -> int:
    start = text.find(key[0], max(0, len(text) - len(key) + 1))
    while start >= 0:
        if key.startswith(text[start:]):
            return len(text) - start
        start = text.find(key[0], start + 1)
    return 0


class HiddenStream:
    """Text in pieces, handed on as soon as it is certain that it is no part of a key."""

    def __init__(self, keys: KnownKeys) -> None:
        self._keys, self._held = keys, ""

    def add(self, piece: str) -> str:
        if not self._keys.keys:
            return piece
        text = self._keys.hidden(self._held + piece)
        held = self._keys.held_back(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        rest, self._held = self._held, ""
        return rest
