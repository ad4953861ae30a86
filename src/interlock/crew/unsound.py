"""The error for a crew with problems."""

from collections.abc import Sequence

from interlock.crew.problem import Problem, Severity
from interlock.errors import CrewError


class UnsoundCrew(CrewError):
    """The crew has problems; all of them are in `problems`."""

    code = "unsound-crew"

    def __init__(self, path: str, problems: Sequence[Problem]) -> None:
        self.path, self.problems = path, tuple(problems)
        errors = [problem for problem in problems if problem.severity is Severity.ERROR]
        lines = [f"{_where(p)}: {p.message} ({p.code}); {p.fix}" for p in errors]
        count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
        super().__init__("\n".join([f"crew '{path}' has {count}", *lines]))


def _where(problem: Problem) -> str:
    """The line of a file; for a crew without a file, the path of the problem."""
    return f"{problem.file}:{problem.line}" if problem.line else f"{problem.file}, {problem.path or 'as a whole'}"


class UnreadableCrew(UnsoundCrew):
    """There is no crew at the path, or it is not YAML."""

    code = "unreadable-crew"
