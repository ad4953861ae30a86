"""The eight states, and the one table of moves."""

from itertools import product

import pytest

from interlock.messages import AgentState, Cause, IllegalMove, move
from interlock.messages.states import MOVES, as_mermaid


def test_there_are_the_eight_states_of_the_protocol() -> None:
    assert [state.value for state in AgentState] == [
        "idle",
        "analyzing",
        "executing",
        "waiting_for_child",
        "waiting_for_parent",
        "waiting_for_user",
        "completed",
        "error",
    ]


@pytest.mark.parametrize(("state", "cause"), list(product(AgentState, Cause)), ids=str)
def test_what_is_in_the_table_is_made_and_all_else_is_refused(state: AgentState, cause: Cause) -> None:
    if (state, cause) in MOVES:
        assert move(state, cause) is MOVES[state, cause]
    else:
        with pytest.raises(IllegalMove, match=f"an agent that is {state} cannot take"):
            move(state, cause)


def test_the_flow_of_the_seed_is_legal() -> None:
    """Analyse, execute, delegate, be asked back, ask the user, get the report, complete."""
    state = AgentState.IDLE
    seen = []
    for cause in (
        Cause.TASK, Cause.WORK, Cause.DELEGATE, Cause.QUERY, Cause.REQUEST_USER_INPUT, Cause.USER_RESPONSE,
        Cause.DELEGATE, Cause.REPORT, Cause.DONE, Cause.TASK,
    ):  # fmt: skip
        state = move(state, cause)
        seen.append(state.value)
    assert seen == [
        "analyzing", "executing", "waiting_for_child", "executing", "waiting_for_user", "executing",
        "waiting_for_child", "executing", "completed", "analyzing",
    ]  # fmt: skip


def test_from_every_state_work_can_be_given_up_or_begun_so_nothing_is_stuck() -> None:
    for state in AgentState:
        assert any(before is state for before, _ in MOVES), state
    reached = {AgentState.IDLE}
    while more := {after for (before, _), after in MOVES.items() if before in reached} - reached:
        reached |= more
    assert reached == set(AgentState)


def test_the_diagram_has_an_arrow_for_every_move() -> None:
    text = as_mermaid()
    assert MOVES
    for (before, cause), after in MOVES.items():
        line = next(line for line in text.splitlines() if line.startswith(f"  {before} --> {after}:"))
        assert str(cause) in line
