"""When and how people were asked in a run: what its state does not know.

Rule 1: a run's state says what is open; its records, one after another, say since when and in which words.
Rule 2: a question that is asked again, because the answer did not fit, is as old as the first time.
"""

from collections.abc import Iterable

from interlock.engine.events import InputRequested
from interlock.engine.state import RunState, Wait
from interlock.ports import OpenQuestion, Record


class Asked:
    """What the records of one run tell of its questions."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._requests: dict[str, InputRequested] = {}
        self._since: dict[str, int] = {}
        for record in records:
            self.note(record)

    def note(self, record: Record) -> None:
        for event in record.events:
            if isinstance(event, InputRequested):
                self._requests[event.token] = event
                self._since.setdefault(event.message_id or event.again_of or event.token, record.at)

    def since(self, question: str) -> int:
        """By the id of its message, or the first token where there is none."""
        return self._since[question]

    def open(self, state: RunState, crew: str) -> tuple[OpenQuestion, ...]:
        """Those of the run itself, the oldest first: what a child asks is listed there."""
        return tuple(
            OpenQuestion(
                id=_id(wait),
                run=state.run,
                crew=crew,
                agent=wait.agent,
                reason=wait.reason,
                question=self._requests[wait.token].question,
                context=wait.context,
                expects=self._requests[wait.token].expects,
                choices=wait.rules.choices,
                token=wait.token,
                since=self._since[_id(wait)],
                until=self._since[wait.message] + wait.deadline_ms if wait.deadline_ms else 0,
            )
            for wait in state.waits
            if not wait.child
        )


def _id(wait: Wait) -> str:
    return wait.message or wait.again_of or wait.token
