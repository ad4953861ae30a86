"""Redacts known secrets in Interlock's log, for all handlers of a program."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from interlock.adapters.config.known_secrets import KnownSecrets

# Filters of a logger apply to its own records, not to those of its children.
LOGGERS = ("interlock", "interlock.runs", "interlock.server", "interlock.signals")


class _RedactingFilter(logging.Filter):
    def __init__(self, keys: KnownSecrets) -> None:
        super().__init__()
        self._keys = keys

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._keys.redact(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = self._keys.redact(logging.Formatter().formatException(record.exc_info))
        return True


@contextmanager
def redact_logs(keys: KnownSecrets) -> Iterator[None]:
    """Redacts for the duration of the block."""
    redacting = _RedactingFilter(keys)
    for name in LOGGERS:
        logging.getLogger(name).addFilter(redacting)
    try:
        yield
    finally:
        for name in LOGGERS:
            logging.getLogger(name).removeFilter(redacting)
