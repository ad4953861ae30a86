"""Agent states. Rule 1: every move is in MOVES, any other is refused. Rule 2: the diagram is drawn from MOVES."""

from enum import StrEnum

from interlock.messages.refusals import IllegalMove


class AgentState(StrEnum):
    IDLE = "idle"
    ANALYZING = "analyzing"
    EXECUTING = "executing"
    WAITING_FOR_CHILD = "waiting_for_child"
    WAITING_FOR_PARENT = "waiting_for_parent"
    WAITING_FOR_USER = "waiting_for_user"
    COMPLETED = "completed"
    ERROR = "error"


class Cause(StrEnum):
    """The causes of a change of state: messages that an agent sends or gets, and the outcome of its work."""

    TASK = "task"  # input of a person, a DELEGATE, or control
    WORK = "work"  # it has selected its children, and starts
    DELEGATE = "DELEGATE"  # it has delegated, and has no other work
    QUERY_PARENT = "QUERY to parent"
    REQUEST_USER_INPUT = "REQUEST_USER_INPUT"
    REPORT = "REPORT"
    QUERY = "QUERY"
    ANSWER = "ANSWER"
    USER_RESPONSE = "USER_RESPONSE"
    NO_ANSWER = "no answer"  # its message is undelivered, timed out, refused, or in a deadlock
    DONE = "done"
    FAILED = "failed"
    GIVEN_UP = "given up"  # its work is no longer needed


_S, _C = AgentState, Cause

_AT_WORK = (_S.ANALYZING, _S.EXECUTING, _S.WAITING_FOR_CHILD, _S.WAITING_FOR_PARENT, _S.WAITING_FOR_USER)

MOVES: dict[tuple[AgentState, Cause], AgentState] = {
    (_S.IDLE, _C.TASK): _S.ANALYZING,
    (_S.COMPLETED, _C.TASK): _S.ANALYZING,
    (_S.ERROR, _C.TASK): _S.ANALYZING,
    (_S.ANALYZING, _C.WORK): _S.EXECUTING,
    (_S.EXECUTING, _C.DELEGATE): _S.WAITING_FOR_CHILD,
    (_S.EXECUTING, _C.QUERY_PARENT): _S.WAITING_FOR_PARENT,
    (_S.EXECUTING, _C.REQUEST_USER_INPUT): _S.WAITING_FOR_USER,
    (_S.EXECUTING, _C.DONE): _S.COMPLETED,
    # A question of a child is not a deadlock: its parent continues, and can answer.
    (_S.WAITING_FOR_CHILD, _C.REPORT): _S.EXECUTING,
    (_S.WAITING_FOR_CHILD, _C.QUERY): _S.EXECUTING,
    (_S.WAITING_FOR_CHILD, _C.NO_ANSWER): _S.EXECUTING,
    # An agent that waits for its parent or a person may have working children too.
    (_S.WAITING_FOR_PARENT, _C.ANSWER): _S.EXECUTING,
    (_S.WAITING_FOR_PARENT, _C.REPORT): _S.EXECUTING,
    (_S.WAITING_FOR_PARENT, _C.QUERY): _S.EXECUTING,
    (_S.WAITING_FOR_PARENT, _C.NO_ANSWER): _S.EXECUTING,
    (_S.WAITING_FOR_USER, _C.USER_RESPONSE): _S.EXECUTING,
    (_S.WAITING_FOR_USER, _C.ANSWER): _S.EXECUTING,
    (_S.WAITING_FOR_USER, _C.REPORT): _S.EXECUTING,
    (_S.WAITING_FOR_USER, _C.QUERY): _S.EXECUTING,
    (_S.WAITING_FOR_USER, _C.NO_ANSWER): _S.EXECUTING,
    **{(state, _C.FAILED): _S.ERROR for state in _AT_WORK},
    **{(state, _C.GIVEN_UP): _S.IDLE for state in _AT_WORK},
}


def move(state: AgentState, cause: Cause) -> AgentState:
    """The state that the cause leads to; raises `IllegalMove` if there is none."""
    after = MOVES.get((state, cause))
    if after is None:
        raise IllegalMove(state, cause, [str(known) for before, known in MOVES if before is state])
    return after


def as_mermaid() -> str:
    """The table as a state diagram; causes that lead the same way share an arrow."""
    arrows: dict[tuple[AgentState, AgentState], list[str]] = {}
    for (before, cause), after in MOVES.items():
        arrows.setdefault((before, after), []).append(cause)
    lines = [f"  {before} --> {after}: {', '.join(causes)}" for (before, after), causes in arrows.items()]
    return "\n".join(["stateDiagram-v2", f"  [*] --> {AgentState.IDLE}", *lines])
