"""[approvals] of interlock.toml: rules about tool calls, and how long a question about one waits.

Rule 1: a bad pattern is refused with the line of the file.
Rule 2: which tools there are is not known here: `compose` checks the names before a run starts.
"""

import math
from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.config.host_sections import section_of
from interlock.approvals.patterns import BadCallPattern, CallPattern, parse_pattern
from interlock.approvals.rules import ApprovalRules
from interlock.errors import UsageError

# A question may wait for a month; for longer, leave the deadline out.
DEADLINE_SECONDS_MAX = 30 * 24 * 3600


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deadline_seconds: float | None = None


class ApprovalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The rules, and the time after which a question is answered with no; 0 if it waits for ever.

    `lines` are the lines of the file, by the text of a pattern.
    """

    rules: ApprovalRules = ApprovalRules()
    deadline_ms: int = 0
    lines: dict[str, int] = {}


NO_APPROVAL_SETTINGS = ApprovalSettings()


def read_approval_settings(file: Path, entry: Any, source: str) -> ApprovalSettings:
    """Reads the section; raises `UsageError` with the fault. `source` is the text of the file."""
    if not isinstance(entry, dict):
        raise UsageError(f"{file}: approvals must be a section; write [approvals]")
    section = section_of(f"{file}: approvals", entry, _Section)
    lines = _lines_of((*section.deny, *section.ask, *section.allow), source)
    rules = ApprovalRules(
        deny=_patterns(file, "deny", section.deny, lines),
        ask=_patterns(file, "ask", section.ask, lines),
        allow=_patterns(file, "allow", section.allow, lines),
    )
    kept = {text.strip(): line for text, line in lines.items()}
    return ApprovalSettings(rules=rules, deadline_ms=_deadline_ms(file, section.deadline_seconds), lines=kept)


def _patterns(file: Path, key: str, texts: tuple[str, ...], lines: dict[str, int]) -> tuple[CallPattern, ...]:
    found = []
    for text in texts:
        try:
            found.append(parse_pattern(text))
        except BadCallPattern as error:
            raise UsageError(f"{file}:{lines[text]}: approvals.{key}: {text[:80]!r}: {error}") from error
    return tuple(found)


def _deadline_ms(file: Path, seconds: float | None) -> int:
    if seconds is None:
        return 0
    if not math.isfinite(seconds) or not 0.001 <= seconds <= DEADLINE_SECONDS_MAX:
        raise UsageError(
            f"{file}: approvals.deadline_seconds is {seconds!r}; it must be a number above 0,"
            f" {DEADLINE_SECONDS_MAX} at most"
        )
    return round(seconds * 1000)


def _lines_of(patterns: tuple[str, ...], source: str) -> dict[str, int]:
    """The line of each pattern: the first in which it stands, as it is or with its quotes escaped.

    The reader of TOML tells no lines. A pattern that is written with other escapes has the line of its section.
    """
    lines = source.splitlines()
    section = next((n for n, line in enumerate(lines, 1) if line.split("#")[0].strip() == "[approvals]"), 1)
    found = {}
    for text in patterns:
        written = (f'"{text}"', f"'{text}'", msgspec.json.encode(text).decode())
        here = (n for n, line in enumerate(lines, 1) if n >= section and any(each in line for each in written))
        found[text] = next(here, section)
    return found
