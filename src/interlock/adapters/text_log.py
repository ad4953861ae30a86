"""The log for people: the lines of the signal protocol, word for word, one a line whatever a reply holds.

Rule 1: a pause is told where somebody waits, and not again by every run that called it.
"""

import sys
from collections.abc import Iterator
from typing import TextIO

from interlock.engine.events import Decided, Event, GroupStarted, HandedOver, RunFinished, RunPaused, SignalSeen, Warned
from interlock.engine.parking import PARKED, SET_ASIDE
from interlock.ids import is_below, run_of
from interlock.ports import StoredRecord
from interlock.signals.registry import SignalRegistry
from interlock.signals.report import emitted_line, routed_line


class TextLog:
    """An observer that writes to standard error."""

    def __init__(self, registry: SignalRegistry, stream: TextIO | None = None) -> None:
        self.registry, self._stream = registry, stream

    def __call__(self, stored: StoredRecord) -> None:
        stream = self._stream or sys.stderr
        for event in stored.record.events:
            for line in self._lines(stored.run, event):
                print(one_line(line), file=stream, flush=True)

    def _lines(self, run: str, event: Event) -> Iterator[str]:
        match event:
            case SignalSeen():
                definition = self.registry.get(event.signal)
                if definition is not None:
                    yield emitted_line(event.agent, definition, event.method)
            case HandedOver():
                yield f"[ROUTING] {event.origin} -> {event.to} (signal: {event.signal})"
                if event.signal:
                    yield routed_line(event.origin, event.to, event.signal)
            case Decided() if event.verb == "end" and event.signal:
                yield f"[ROUTING] {event.agent} -> TERMINATE (signal: {event.signal})"
            case GroupStarted():
                yield f"[ROUTING] group {event.group} -> {', '.join(event.members)}"
            case RunPaused() if event.reason not in (PARKED, SET_ASIDE) and not is_below(run_of(event.token), run):
                yield f"[PAUSE:{event.agent}] Waiting for user input"
            case Warned() if event.code == "deprecated-signal":
                yield f"[SIGNAL-WARNING] {event.message}"
            case RunFinished() if event.reason.startswith("signal:"):
                yield f"[TERMINATE] Workflow ended by signal: {event.reason.removeprefix('signal:')}"
            case _:
                return


def one_line(text: str) -> str:
    """The text with everything escaped that could forge a line or command a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
