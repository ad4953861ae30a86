"""What an agent is doing. Rule 1: every move is in MOVES, anything else is refused. Rule 2: the diagram is MOVES."""

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
    """What moves an agent from one state to another: messages it sends or gets, and what becomes of its work."""

    TASK = "task"  # a person's words, a DELEGATE, or the floor
    WORK = "work"  # it knows who is needed, and begins
    DELEGATE = "DELEGATE"  # it has delegated, and has nothing else to do
    QUERY_PARENT = "QUERY to parent"
    REQUEST_USER_INPUT = "REQUEST_USER_INPUT"
    REPORT = "REPORT"
    QUERY = "QUERY"
    ANSWER = "ANSWER"
    USER_RESPONSE = "USER_RESPONSE"
    NO_ANSWER = "no answer"  # what it waited for is undelivered, out of time, refused, or a deadlock
    DONE = "done"
    FAILED = "failed"
    GIVEN_UP = "given up"  # nobody wants its work any more


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
    # A child that asks back is no deadlock: its parent goes on, and can answer.
    (_S.WAITING_FOR_CHILD, _C.REPORT): _S.EXECUTING,
    (_S.WAITING_FOR_CHILD, _C.QUERY): _S.EXECUTING,
    (_S.WAITING_FOR_CHILD, _C.NO_ANSWER): _S.EXECUTING,
    # Who waits for its parent or for a person may have children at work too.
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
    """Where the cause leads; `IllegalMove` where it leads nowhere."""
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
