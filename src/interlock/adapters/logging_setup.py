"""Where the log of a command goes: standard error, as much as was asked for, and the file of the data folder."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from interlock.adapters.log_file import LogFile
from interlock.adapters.log_lines import BriefLines, JsonLines, TextLines
from interlock.adapters.log_settings import LogSettings
from interlock.adapters.models.known_keys import KnownKeys
from interlock.adapters.run_log import RUNS, SIGNALS

_STYLES = {"json": JsonLines, "text": TextLines, "brief": BriefLines}


class LogChoice(NamedTuple):
    """What the options of a command say; empty where they say nothing."""

    level: str = ""
    format: str = ""


class LogDefaults(NamedTuple):
    """What a command shows on standard error if nobody says otherwise.

    `runs` is the least that it shows of what happens to runs: a command that shows a run itself need not log it too.
    """

    level: str
    format: str
    runs: str = "debug"


# Above every level.
NOTHING = "critical"


class _Stderr(logging.StreamHandler[TextIO]):
    """Standard error as it is at each line: a live view holds it back."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


@contextmanager
def logging_to(
    data: Path, keys: KnownKeys, settings: LogSettings, choice: LogChoice, defaults: LogDefaults
) -> Iterator[None]:
    """While the block lasts, all logs of this process go there."""
    asked = choice.level or settings.level
    handlers: list[logging.Handler] = [_stderr(keys, settings, choice, defaults, asked)]
    if settings.file:
        file = LogFile(data, round(settings.max_mb * 1024 * 1024), settings.files)
        file.setFormatter(JsonLines(keys))
        file.setLevel(settings.file_level.upper())
        handlers.append(file)
    root, own = logging.getLogger(), logging.getLogger("interlock")
    before = root.handlers[:], root.level, own.level
    root.handlers[:], root.level = handlers, logging.WARNING
    own.setLevel(min(handler.level for handler in handlers))
    try:
        yield
    finally:
        root.handlers[:], root.level = before[0], before[1]
        own.setLevel(before[2])
        for handler in handlers:
            handler.close()


def _stderr(
    keys: KnownKeys, settings: LogSettings, choice: LogChoice, defaults: LogDefaults, asked: str
) -> logging.Handler:
    handler = _Stderr()
    handler.setLevel((asked or defaults.level).upper())
    handler.setFormatter(_STYLES[choice.format or settings.format or defaults.format](keys))
    handler.addFilter(_Wanted(asked, defaults.runs))
    return handler


class _Wanted(logging.Filter):
    """The lines of the signal protocol are for those who ask for them, and so is what happens to a run on show."""

    def __init__(self, asked: str, runs: str) -> None:
        super().__init__()
        self._shows_signals = bool(asked)
        least = "debug" if asked == "debug" else "warning" if asked and runs == NOTHING else runs
        self._least_of_runs = logging.getLevelNamesMapping()[least.upper()]

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == SIGNALS:
            return self._shows_signals
        return record.name != RUNS or record.levelno >= self._least_of_runs
