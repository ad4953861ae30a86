"""[log] of interlock.toml: how much is logged, in which form, and how large the log files may become."""

import math
from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.config.host_sections import section_of
from interlock.errors import UsageError

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("json", "text")


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log on standard error, unless an option of the command overrides it, and in the log file."""

    level: str = ""  # of standard error; each command has its own default
    format: str = ""  # of standard error: JSON lines for a server, text for other commands
    file: bool = True  # true if DATA/interlock.log is written
    file_level: str = "info"
    # A server under load logs about 1 kB per run: five files of 10 MB contain the last 50,000 runs.
    max_mb: float = 10
    files: int = 5
    # A request that takes longer than this is a warning; of a stream only its start counts.
    slow_request_seconds: float = 2


def read_log_settings(file: Path, entry: Any) -> LogSettings:
    """Reads the section; raises `UsageError` with the fault."""
    if not isinstance(entry, dict):
        raise UsageError(f"{file}: log must be a section; write [log]")
    settings = section_of(f"{file}: log", entry, LogSettings)
    for key, value, known in (
        ("level", settings.level or LEVELS[0], LEVELS),
        ("file_level", settings.file_level, LEVELS),
        ("format", settings.format or FORMATS[0], FORMATS),
    ):
        if value not in known:
            raise UsageError(f"{file}: log.{key} is {value!r}; it must be one of {', '.join(known)}")
    for key in ("max_mb", "slow_request_seconds", "files"):
        value = getattr(settings, key)
        if not math.isfinite(value) or value <= 0:
            raise UsageError(f"{file}: log.{key} is {value!r}; it must be a number above 0")
    return settings
