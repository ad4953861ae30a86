"""Sets up the log of a command: standard error at the requested level, and the file of the data folder."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.config.log_settings import LogSettings
from interlock.adapters.log.log_file import LogFile
from interlock.adapters.log.log_lines import BriefLines, JsonLines, TextLines
from interlock.adapters.log.run_log import RUNS, SIGNALS

_STYLES = {"json": JsonLines, "text": TextLines, "brief": BriefLines}


class LogChoice(NamedTuple):
    """The log options of a command; empty if they are not given."""

    level: str = ""
    format: str = ""


class LogDefaults(NamedTuple):
    """The default log of a command on standard error.

    `runs` is the lowest level for events of runs: a command that shows a run need not log it too.
    """

    level: str
    format: str
    runs: str = "debug"


# Above every level.
NOTHING = "critical"


class _Stderr(logging.StreamHandler[TextIO]):
    """Standard error, looked up for each line: a live view replaces it."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


@contextmanager
def send_logs_to(
    data: Path | None, keys: KnownSecrets, settings: LogSettings, choice: LogChoice, defaults: LogDefaults
) -> Iterator[None]:
    """Sends all logs of this process there, for the duration of the block; without a data folder to no file."""
    asked = choice.level or settings.level
    json_lines = JsonLines(keys)
    style = _STYLES[choice.format or settings.format or defaults.format]
    lines = json_lines if style is JsonLines else style(keys)
    handlers: list[logging.Handler] = [_stderr_handler(lines, defaults, asked)]
    if settings.file and data is not None:
        file = LogFile(data, round(settings.max_mb * 1024 * 1024), settings.files)
        file.setFormatter(json_lines)
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


def _stderr_handler(lines: logging.Formatter, defaults: LogDefaults, asked: str) -> logging.Handler:
    handler = _Stderr()
    handler.setLevel((asked or defaults.level).upper())
    handler.setFormatter(lines)
    handler.addFilter(_StderrFilter(asked, defaults.runs))
    return handler


class _StderrFilter(logging.Filter):
    """Hides lines of the signal protocol, and of a run on screen, unless they are asked for."""

    def __init__(self, asked: str, runs: str) -> None:
        super().__init__()
        self._shows_signals = bool(asked)
        least = "debug" if asked == "debug" else "warning" if asked and runs == NOTHING else runs
        self._least_of_runs = logging.getLevelNamesMapping()[least.upper()]

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name == SIGNALS:
            return self._shows_signals
        return record.name != RUNS or record.levelno >= self._least_of_runs
