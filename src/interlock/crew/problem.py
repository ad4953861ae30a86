"""Problems found by checks. The code names the fact; the severity tells how bad it is here."""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from interlock.crew.nodes import Path, SourceLocation, path_text


class Severity(StrEnum):
    ERROR = "error"  # the crew does not load
    WARNING = "warning"  # it loads, but something in it will not work as expected
    NOTE = "note"  # it loads; this is how it was understood


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem: its fact, its place and its fix."""

    code: str
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    path: str
    fix: str


class Problems:
    """Collects problems while a crew is read and checked."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(
        self,
        code: str,
        message: str,
        *,
        place: SourceLocation,
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
                path=path_text(path),
                fix=fix,
            )
        )


def in_file_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems in reading order: by file in the order they were opened, each from top to bottom."""
    problems = list(problems)
    opened = {file: n for n, file in enumerate(dict.fromkeys(p.file for p in problems))}
    return sorted(dict.fromkeys(problems), key=lambda p: (opened[p.file], p.line, p.column))


def is_sound(problems: Iterable[Problem]) -> bool:
    return not any(p.severity is Severity.ERROR for p in problems)
