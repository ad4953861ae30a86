"""Redaction of the secrets that this host knows, in everything that is stored, shown or logged.

Rule 1: exact values are replaced, also when escaped in JSON or an address, and when split in a stream. Values under
`KEY_CHARS_MIN` characters are not redacted.
Rule 2: keys, sessions and codes of servers are recognised by their form, so those of other processes are replaced too.
Rule 3: keys of JSON objects, ids and digests are never changed.
Rule 4: in error messages of a provider, everything that looks like a key is replaced too.
"""

import re
from collections.abc import Iterable, Set
from typing import Any
from urllib.parse import quote

import msgspec

REDACTED = "[redacted]"

# Shorter values are placeholders such as "none"; replacing them would garble replies.
KEY_CHARS_MIN = 8

# The part of an error that a person needs; the advice of providers fits.
ERROR_CHARS_MAX = 300

# The form of keys (ilk_), one-time codes (ilc_) and sessions (ils_) of servers; see `served_folder`, `access`.
_SHAPED = re.compile(
    r"il(?:k_[A-Za-z0-9_-]{43}|c_[A-Za-z0-9_-]{32}|s_[0-9]{13}\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9:_-]{1,80}\.[0-9a-f]{64})"
)
_SHAPED_BYTES = re.compile(_SHAPED.pattern.encode())
# The same, cut off by the end of the text.
_SHAPED_SO_FAR = re.compile(r"i(?:l(?:[kcs](?:_[A-Za-z0-9:_.-]{0,190})?)?)?\Z")
_SHAPED_CHARS_MAX = 200

# Fields of our own answers with ids, digests or names that programs compare.
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


class KnownSecrets:
    """Replaces known secrets; a secret that is added later is redacted everywhere this object is used."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self.keys: tuple[str, ...] = ()
        self._as_bytes: tuple[bytes, ...] = ()
        self.add(*keys)

    def add(self, *keys: str) -> None:
        found = {form for key in keys if len(key) >= KEY_CHARS_MIN for form in _forms(key)}
        if not found <= set(self.keys):
            self.keys = tuple(sorted(found.union(self.keys), key=lambda key: (-len(key), key)))
            self._as_bytes = tuple(key.encode("utf-8", "replace") for key in self.keys)

    def redact(self, text: str) -> str:
        for key in self.keys:
            if key in text:
                text = text.replace(key, REDACTED)
        if "ilk_" in text or "ils_" in text or "ilc_" in text:  # far faster than a search for the form itself
            text = _SHAPED.sub(REDACTED, text)
        return text

    def redact_value(self, value: Any) -> Any:
        """A JSON value with its texts replaced; keys of objects stay."""
        if value is msgspec.UNSET or not self._is_in(msgspec.json.encode(value)):
            return value
        return self._redact_within(value)

    def redact_json(self, text: str) -> str:
        """The same for JSON in a text, such as arguments; if it is not JSON, it is redacted as text."""
        if self.redact(text) == text:
            return text
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return self.redact(text)
        return msgspec.json.encode(self._redact_within(value)).decode()

    def redact_body(self, body: bytes) -> bytes:
        """One of our own JSON answers with its texts replaced; ids and digests stay."""
        if not self._is_in(body):
            return body
        try:
            return msgspec.json.encode(self._redact_within(msgspec.json.decode(body), ID_FIELDS))
        except (msgspec.DecodeError, RecursionError):
            return self.redact(body.decode("utf-8", "replace")).encode()

    def _is_in(self, body: bytes) -> bool:
        return any(key in body for key in self._as_bytes) or _SHAPED_BYTES.search(body) is not None

    def _redact_within(self, value: Any, kept: Set[str] = frozenset(), field: str = "") -> Any:
        """Redacts nested values. No comprehensions: each costs a frame, and values may be half a stack deep."""
        if isinstance(value, str):
            return value if field in kept else self.redact(value)
        if isinstance(value, list | tuple):
            items = []
            for each in value:
                items.append(self._redact_within(each, kept, field))  # noqa: PERF401 - as above
            return items
        if isinstance(value, dict):
            fields = {}
            for name, each in value.items():
                fields[name] = self._redact_within(each, kept, name)
            return fields
        return value

    def partial_secret_length(self, text: str) -> int:
        """The number of characters at the end of the text that could be the beginning of a secret."""
        begun = 0
        if "i" in text:  # far faster than a search
            shaped = _SHAPED_SO_FAR.search(text, max(0, len(text) - _SHAPED_CHARS_MAX))
            begun = len(text) - shaped.start() if shaped is not None else 0
        for key in self.keys:
            if text.find(key[0], 1 - len(key)) >= 0:
                begun = max(begun, _partial_match_length(key, text))
        return begun

    def safe_line(self, text: str) -> str:
        """A provider's text on one short line, without anything that looks like a key."""
        hidden = _LOOKS_LIKE_A_KEY.sub(REDACTED, self.redact(text[: 100 * ERROR_CHARS_MAX]))
        line = " ".join("".join(char if char.isprintable() else " " for char in hidden).split())
        return line if len(line) <= ERROR_CHARS_MAX else f"{line[: ERROR_CHARS_MAX - 1]}…"


def _forms(key: str) -> set[str]:
    """The secret itself, and its escaped forms in JSON and addresses."""
    escaped = msgspec.json.encode(key.encode("utf-8", "replace").decode()).decode()[1:-1]
    return {key, escaped, quote(key, safe="")}


def _partial_match_length(key: str, text: str) -> int:
    start = text.find(key[0], max(0, len(text) - len(key) + 1))
    while start >= 0:
        if key.startswith(text[start:]):
            return len(text) - start
        start = text.find(key[0], start + 1)
    return 0


class RedactingStream:
    """Redacts text in pieces; each is passed on as soon as it cannot be part of a secret."""

    def __init__(self, keys: KnownSecrets) -> None:
        self._keys, self._held = keys, ""

    def add(self, piece: str) -> str:
        text = self._keys.redact(self._held + piece)
        held = self._keys.partial_secret_length(text)
        if not held:
            self._held = ""
            return text
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        rest, self._held = self._held, ""
        return rest
