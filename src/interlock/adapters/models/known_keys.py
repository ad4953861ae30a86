"""Secrets that this host knows, kept out of everything that is stored, shown or logged.

Rule 1: exact values are replaced wherever they stand, also as JSON or an address writes them; in a stream also where
pieces cut them in two. Values under `KEY_CHARS_MIN` characters are not searched for.
Rule 2: keys, sessions and codes of servers have a shape of their own and are replaced by it: this process need not
have made them.
Rule 3: keys of JSON objects, ids and digests are never changed.
Rule 4: in what a provider says of an error, whatever looks like a key is replaced too.
"""

import re
from collections.abc import Iterable, Set
from typing import Any
from urllib.parse import quote

import msgspec

REDACTED = "[redacted]"

# Shorter values are placeholders such as "none"; replacing them would garble replies.
KEY_CHARS_MIN = 8

# What a person needs of an error; providers' own advice fits.
ERROR_CHARS_MAX = 300

# How keys (ilk_), one-time codes (ilc_) and sessions (ils_) of servers begin and go on; see `served_folder`, `access`.
_SHAPED = re.compile(
    r"il(?:k_[A-Za-z0-9_-]{43}|c_[A-Za-z0-9_-]{32}|s_[0-9]{13}\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9:_-]{1,80}\.[0-9a-f]{64})"
)
_SHAPED_BYTES = re.compile(_SHAPED.pattern.encode())
# The same, broken off by the end of the text.
_SHAPED_SO_FAR = re.compile(r"i(?:l(?:[kcs](?:_[A-Za-z0-9:_.-]{0,190})?)?)?\Z")
_SHAPED_CHARS_MAX = 200

# Fields of our own answers that hold ids, digests or names that programs compare.
ID_FIELDS = frozenset(
    (
        *("agent", "agent_id", "call", "child", "code", "continues", "crew", "crew_sha", "cursor", "digest", "from"),
        *("hook", "id", "in_response_to", "key", "link", "message_id", "next", "parent", "pattern", "run", "sha256"),
        *("status", "to", "token", "type"),
    )
)

_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|AIza|key|api)[-_](?=\S*\d)[A-Za-z0-9_\-*.]{8,}|(?i:bearer)\s+\S+"
)


class KnownKeys:
    """Replaces the secrets it was given; whoever learns of another one adds it for all who hold this."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys: tuple[str, ...] = ()
        self._as_bytes: tuple[bytes, ...] = ()
        self.add(*keys)

    def add(self, *keys: str) -> None:
        found = {form for key in keys if len(key) >= KEY_CHARS_MIN for form in _forms(key)}
        if not found <= set(self.keys):
            self.keys = tuple(sorted(found.union(self.keys), key=lambda key: (-len(key), key)))
            self._as_bytes = tuple(key.encode("utf-8", "replace") for key in self.keys)

    def hidden(self, text: str) -> str:
        for key in self.keys:
            if key in text:
                text = text.replace(key, REDACTED)
        if "ilk_" in text or "ils_" in text or "ilc_" in text:  # far quicker than looking for the shape itself
            text = _SHAPED.sub(REDACTED, text)
        return text

    def hidden_value(self, value: Any) -> Any:
        """A JSON value with its texts replaced; keys of objects stay."""
        if value is msgspec.UNSET or not self._is_in(msgspec.json.encode(value)):
            return value
        return self._hidden_within(value)

    def hidden_json(self, text: str) -> str:
        """The same for JSON that is held as text, such as arguments; what is no JSON is replaced as text."""
        if self.hidden(text) == text:
            return text
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return self.hidden(text)
        return msgspec.json.encode(self._hidden_within(value)).decode()

    def hidden_body(self, body: bytes) -> bytes:
        """An answer of ours in JSON: its ids and digests stay."""
        if not self._is_in(body):
            return body
        try:
            return msgspec.json.encode(self._hidden_within(msgspec.json.decode(body), ID_FIELDS))
        except (msgspec.DecodeError, RecursionError):
            return self.hidden(body.decode("utf-8", "replace")).encode()

    def _is_in(self, body: bytes) -> bool:
        return any(key in body for key in self._as_bytes) or _SHAPED_BYTES.search(body) is not None

    def _hidden_within(self, value: Any, kept: Set[str] = frozenset(), field: str = "") -> Any:
        """Without comprehensions: each would cost a frame, and values may nest as deep as half the stack."""
        if isinstance(value, str):
            return value if field in kept else self.hidden(value)
        if isinstance(value, list | tuple):
            items = []
            for each in value:
                items.append(self._hidden_within(each, kept, field))  # noqa: PERF401 - as above
            return items
        if isinstance(value, dict):
            fields = {}
            for name, each in value.items():
                fields[name] = self._hidden_within(each, kept, name)
            return fields
        return value

    def held_back(self, text: str) -> int:
        """How many characters at the end of the text could be the beginning of a secret."""
        shaped = _SHAPED_SO_FAR.search(text, max(0, len(text) - _SHAPED_CHARS_MAX))
        begun = len(text) - shaped.start() if shaped is not None else 0
        return max([begun, *(_begun(key, text) for key in self.keys)])

    def safe_line(self, text: str) -> str:
        """One short line of what a provider said, with nothing in it that looks like a key."""
        hidden = _LOOKS_LIKE_A_KEY.sub(REDACTED, self.hidden(text[: 100 * ERROR_CHARS_MAX]))
        line = " ".join("".join(char if char.isprintable() else " " for char in hidden).split())
        return line if len(line) <= ERROR_CHARS_MAX else f"{line[: ERROR_CHARS_MAX - 1]}…"


def _forms(key: str) -> set[str]:
    """As it is, and as JSON and addresses write it."""
    escaped = msgspec.json.encode(key.encode("utf-8", "replace").decode()).decode()[1:-1]
    return {key, escaped, quote(key, safe="")}


def _begun(key: str, text: str) -> int:
    start = text.find(key[0], max(0, len(text) - len(key) + 1))
    while start >= 0:
        if key.startswith(text[start:]):
            return len(text) - start
        start = text.find(key[0], start + 1)
    return 0


class HiddenStream:
    """Text in pieces, handed on as soon as it is certain that it is no part of a secret."""

    def __init__(self, keys: KnownKeys) -> None:
        self._keys, self._held = keys, ""

    def add(self, piece: str) -> str:
        text = self._keys.hidden(self._held + piece)
        held = self._keys.held_back(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        rest, self._held = self._held, ""
        return rest
