"""The questions of a run to people, with their time and wording, which its state does not hold.

Rule 1: the state of a run says which questions are open; its records say since when, and their text.
Rule 2: a question that is asked again, because the answer did not fit, is as old as the first time.
"""

from collections.abc import Iterable

from interlock.engine.events import InputRequested
from interlock.engine.state import OpenTool, RunState, Wait, turns_of
from interlock.engine.turns.approvals import APPROVAL, approval_question
from interlock.ports import OpenQuestion, Record


class QuestionLog:
    """The questions in the records of one run."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._requests: dict[str, InputRequested] = {}
        self._since: dict[str, int] = {}
        for record in records:
            self.add_record(record)

    def add_record(self, record: Record) -> None:
        for event in record.events:
            if isinstance(event, InputRequested):
                self._requests[event.token] = event
                self._since.setdefault(event.message_id or event.again_of or event.token, record.at)

    def since(self, question: str) -> int:
        """When it was asked first; `question` is the id of its message, or the first token where there is none."""
        return self._since[question]

    def open_questions(self, state: RunState, crew: str) -> tuple[OpenQuestion, ...]:
        """The open questions of the run itself, the oldest first; those of a child are in its own log."""
        tools = {tool.key: tool for turn in turns_of(state) for tool in turn.tools}
        return tuple(self._question(state, crew, wait, tools.get(wait.tool)) for wait in state.waits if not wait.child)

    def _question(self, state: RunState, crew: str, wait: Wait, tool: OpenTool | None) -> OpenQuestion:
        asked, request = self._requests[wait.token], tool.request if tool is not None else None
        is_approval = wait.reason == APPROVAL and request is not None
        plain = approval_question(wait.agent, tool) if is_approval and tool is not None else wait.question
        return OpenQuestion(
            id=wait.id,
            run=state.run,
            crew=crew,
            agent=wait.agent,
            reason=wait.reason,
            question=asked.question,
            expects=asked.expects,
            choices=wait.rules.choices,
            token=wait.token,
            since=self._since[wait.id],
            until=self._since[wait.id] + wait.deadline_ms if wait.deadline_ms else 0,
            context=wait.context,
            pattern=wait.rules.pattern,
            schema=wait.rules.schema,
            default=wait.default,
            fault=_fault(plain, asked.question),
            tool=request.name if request is not None else "",
            call=wait.tool,
            arguments=(tool.arguments or "{}") if is_approval and tool is not None else "",
            holds_for=tool.terms.pattern if is_approval and tool is not None and tool.terms is not None else "",
        )


def _fault(plain: str, asked: str) -> str:
    """Why the last answer was refused: the end of the text of a repeated question."""
    return asked[len(plain) + 2 : -1] if plain and asked.startswith(f"{plain}\n(") else ""
