"""Log records as lines: JSON for programs, text for people. One record is one line without secrets.

A message cannot forge a line or a field: in JSON it is a field of its own, in text every control character is escaped.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from interlock.adapters.config.known_secrets import KnownSecrets


def one_line(text: str) -> str:
    """The text with all characters escaped that could forge a line or control a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class _Formatter(logging.Formatter):
    def __init__(self, keys: KnownSecrets) -> None:
        super().__init__()
        self._keys = keys

    def _error(self, record: logging.LogRecord) -> str:
        return self._keys.redact(self.formatException(record.exc_info)) if record.exc_info else ""


class JsonLines(_Formatter):
    """`at`, `level`, `logger`, `message`, the record's own fields such as `run`, and `error` if there is one.

    Handlers that share one of these format a record once.
    """

    def format(self, record: logging.LogRecord) -> str:
        made: tuple[JsonLines, str] | None = getattr(record, "made_line", None)
        if made is None or made[0] is not self:
            made = record.made_line = self, self._line_of(record)
        return made[1]

    def _line_of(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, "fields", {})
        line: dict[str, Any] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._keys.redact(record.getMessage()),
            **self._keys.redact_value(fields),
        }
        if error := self._error(record):
            line["error"] = error
        return json.dumps(line, ensure_ascii=True).replace("\x7f", "\\u007f")


class TextLines(_Formatter):
    """Time, level and message, for a server log that people read."""

    def format(self, record: logging.LogRecord) -> str:
        error = self._error(record)
        message = f"{self._keys.redact(record.getMessage())}{': ' if error else ''}{error}"
        return one_line(f"{_time(record)} {record.levelname.lower():<7} {message}")


class BriefLines(_Formatter):
    """The log of a command: warnings look like its own messages, other lines are unchanged."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = "interlock: " if record.levelno >= logging.WARNING else ""
        error = self._error(record)
        return one_line(f"{prefix}{self._keys.redact(record.getMessage())}{': ' if error else ''}{error}")


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
