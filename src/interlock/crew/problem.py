"""What a check finds. The code names the fact, the severity says how bad it is here."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from interlock.crew.nodes import Path, Place, written


class Severity(StrEnum):
    ERROR = "error"  # the crew does not load
    WARNING = "warning"  # it loads, and something in it will disappoint
    NOTE = "note"  # it loads, and this is how it was understood


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One finding: what, where, and what now."""

    code: str
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    path: str
    fix: str


class Problems:
    """Collects findings while a crew is read and checked."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(
        self,
        code: str,
        message: str,
        *,
        place: Place,
        path: Path = (),
        fix: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        self.found.append(
            Problem(
                code=code,
                severity=severity,
                message=message,
                file=place.file,
                line=place.line,
                column=place.column,
                path=written(path),
                fix=fix,
            )
        )


def in_file_order(problems: Iterable[Problem]) -> list[Problem]:
    """As a person reads: file by file in the order they were opened, each from top to bottom."""
    problems = list(problems)
    opened = {file: n for n, file in enumerate(dict.fromkeys(p.file for p in problems))}
    return sorted(dict.fromkeys(problems), key=lambda p: (opened[p.file], p.line, p.column))


def is_sound(problems: Iterable[Problem]) -> bool:
    return not any(p.severity is Severity.ERROR for p in problems)
