"""The log of a server: one JSON object a line, whatever was in a message, and no key in any."""

import json
import logging
import sys
from datetime import UTC, datetime

from interlock.adapters.models.known_keys import KnownKeys


class JsonLines(logging.Formatter):
    """Escapes everything that could end a line or command a terminal."""

    def __init__(self, keys: KnownKeys) -> None:
        super().__init__()
        self._keys = keys

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._keys.hidden(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = self._keys.hidden(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=True)


def log_as_json_lines(keys: KnownKeys) -> None:
    """From now on all logs of this process go to standard error that way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(keys))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("interlock").setLevel(logging.INFO)
