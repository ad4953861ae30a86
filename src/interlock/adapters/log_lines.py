"""Log records as lines: JSON for programs, text for people. One record is one line, and holds no secret.

A message cannot forge a line or a field: in JSON it is a field of its own, in text every control character is escaped.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from interlock.adapters.models.known_keys import KnownKeys


def one_line(text: str) -> str:
    """The text with everything escaped that could forge a line or command a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class _Formatter(logging.Formatter):
    def __init__(self, keys: KnownKeys) -> None:
        super().__init__()
        self._keys = keys

    def _error(self, record: logging.LogRecord) -> str:
        return self._keys.hidden(self.formatException(record.exc_info)) if record.exc_info else ""


class JsonLines(_Formatter):
    """`at`, `level`, `logger`, `message`, the record's own fields such as `run`, and `error` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        line: dict[str, Any] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._keys.hidden(record.getMessage()),
            **self._keys.hidden_value(fields),
        }
        if error := self._error(record):
            line["error"] = error
        return json.dumps(line, ensure_ascii=True).replace("\x7f", "\\u007f")


class TextLines(_Formatter):
    """Time, level and message, for a server whose log people read."""

    def format(self, record: logging.LogRecord) -> str:
        error = self._error(record)
        said = f"{self._keys.hidden(record.getMessage())}{': ' if error else ''}{error}"
        return one_line(f"{_time(record)} {record.levelname.lower():<7} {said}")


class BriefLines(_Formatter):
    """Of a command: warnings as the command's own messages, everything else as it is."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = "interlock: " if record.levelno >= logging.WARNING else ""
        error = self._error(record)
        return one_line(f"{prefix}{self._keys.hidden(record.getMessage())}{': ' if error else ''}{error}")


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
