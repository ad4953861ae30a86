"""A crew that was refused, with every reason."""

from collections.abc import Sequence

from interlock.crew.problem import Problem, Severity
from interlock.errors import CrewError


class UnsoundCrew(CrewError):
    """The crew has problems; all of them are in `problems`."""

    code = "unsound-crew"

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        self.path, self.problems = path, tuple(problems)
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        lines = [f"{p.file}:{p.line}: {p.message} ({p.code}); {p.fix}" for p in errors]
        super().__init__("\n".join([f"crew '{path}' has {len(errors)} errors", *lines]))


class UnreadableCrew(UnsoundCrew):
    """There is no crew to read at the path, or it is no YAML."""

    code = "unreadable-crew"
