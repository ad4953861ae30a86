"""What Interlock logs, without the secrets that it knows, whichever handlers a program has set up."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.adapters.models.known_keys import KnownKeys

# Filters of a logger hold for what is logged through itself, and not for what its children pass on.
LOGGERS = ("interlock", "interlock.runs", "interlock.server", "interlock.signals")


class _Redacting(logging.Filter):
    def __init__(self, keys: KnownKeys) -> None:
        super().__init__()
        self._keys = keys

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._keys.hidden(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = self._keys.hidden(logging.Formatter().formatException(record.exc_info))
        return True


@contextmanager
def redacted_log(keys: KnownKeys) -> Iterator[None]:
    """While the block lasts."""
    redacting = _Redacting(keys)
    for name in LOGGERS:
        logging.getLogger(name).addFilter(redacting)
    try:
        yield
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(redacting)
