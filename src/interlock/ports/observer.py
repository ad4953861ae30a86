"""Observers of stored records."""

from typing import Protocol

from interlock.ports.records import StoredRecord


class Observer(Protocol):
    """Is called with each stored record; it cannot change the run."""

    def __call__(self, stored: StoredRecord) -> None: ...
