"""Questions that wait for a person."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One wait for a person. `id` identifies it: that of the message if an agent asked, else the first token.

    The id stays the same when an answer was refused and the question is asked again with another token. `context` is
    the reason for the question. `since` and `until` are in milliseconds since 1970; `until` is 0 without a deadline,
    and `default` is the answer at the deadline. `fault` says why the last answer was refused. An approval names its
    `tool`, the `call` and the `arguments` as the model wrote them; `holds_for` are the calls for which the answers
    `for this run` and `always` hold, empty if the person must name them.
    """

    id: str
    run: str
    crew: str
    agent: str
    reason: str
    question: str
    context: str = ""
    expects: str = ""
    choices: tuple[str, ...] = ()
    token: str
    since: int
    until: int = 0
    pattern: str = ""
    schema: dict[str, Any] = {}
    default: str | None = None
    fault: str = ""
    tool: str = ""
    call: str = ""
    arguments: str = ""
    holds_for: str = ""


class RunQuestions(msgspec.Struct, frozen=True, kw_only=True):
    """All open questions of a run, the oldest first."""

    run: str
    questions: tuple[OpenQuestion, ...] = ()


class Questions(Protocol):
    """The open questions of all runs, stored with their records."""

    async def open_questions(
        self, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        """The newest first; those before a time and token; those of one run and the runs below it. Pages as of `since`.

        Damaged ones are left out. After one was met, `runs_without_question_list` names every live run until its
        questions are stored again.
        """
        ...

    async def overdue_questions(self, at: int, limit: int) -> Sequence[OpenQuestion]:
        """The questions whose `until` is not 0 and not after a time, the longest overdue first. Damaged ones are left
        out."""
        ...

    async def runs_without_question_list(self) -> Sequence[str]:
        """Runs whose questions are unknown: imported, or older than the table of questions."""
        ...

    async def store_questions(self, asking: RunQuestions, seq: int) -> None:
        """Stores the questions of a run if this seq is still its newest; else does nothing."""
        ...
