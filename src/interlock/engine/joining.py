"""Parallel groups: members start from the same history, and their replies become one entry.

A sub-crew may be a member: it works on this run's input, and what it says steers nothing here.
"""

from collections.abc import Sequence

from interlock.crew.definition import Group
from interlock.engine.beginning import first, new_turn
from interlock.engine.delegating import asked_at_once
from interlock.engine.emitting import emitted
from interlock.engine.events import BranchFinished, GroupJoined, GroupStarted
from interlock.engine.leaving import abandon_work, leave
from interlock.engine.moves import Begin, CloseBranch, Finish, Follow, Fork, Join, Move
from interlock.engine.nesting import (
    SHARED,
    exhausted,
    out_of_budget,
    shared_out,
    start_child,
    stop_child,
    take_results,
)
from interlock.engine.phrases import merged
from interlock.engine.routing import Decision, OwnReply
from interlock.engine.state import Branch, GroupState
from interlock.engine.steering import write_down
from interlock.engine.timing import GROUP, drop_timer, start_timer
from interlock.engine.transition import Transition
from interlock.frames import Quoting


def fork(t: Transition, move: Fork) -> Move | None:
    decision = move.decision
    group = t.crew.groups[decision.target]
    short = exhausted(t, len(group.agents), _bounds_that_count(t, group))
    if short is not None:
        return out_of_budget(t, short, len(group.agents))
    t.conclude(GroupStarted(group=group.name, members=group.agents))
    branches = [_branch(t, group, member) for member in group.agents]
    t.state.group = GroupState(name=group.name, starter=decision.agent, branches=branches)
    seconds = t.settings.parallel_timeout_seconds if group.timeout_seconds is None else group.timeout_seconds
    start_timer(t, GROUP, int(seconds * 1000))
    for branch in branches:
        begun = first(t, branch.turn) if branch.turn is not None else None
        spent = asked_at_once(t, branch.turn) if branch.turn is not None and begun is not None else None
        if isinstance(spent, Finish):
            return spent
    return None


def _bounds_that_count(t: Transition, group: Group) -> Sequence[str]:
    """An agent needs room for its call; what that costs is seen when it is made. A sub-crew gets its part of all."""
    return SHARED if any(member in t.crew.sub_crews for member in group.agents) else ("calls",)


def _branch(t: Transition, group: Group, member: str) -> Branch:
    if member not in t.crew.sub_crews:
        return Branch(member=member, turn=new_turn(t, member))
    given = shared_out(t, member, len(group.agents))
    return Branch(member=member, child=start_child(t, member, t.state.input, given))


def close_branch(t: Transition, move: CloseBranch) -> Move | None:
    _give_up(t, move.branch)  # a branch may fail by one of its tools while others run or wait for a person
    _close(t, move.branch, move.status, move.error)
    return Join() if is_complete(t) else None


def _close(t: Transition, branch: Branch, status: str, error: str = "") -> None:
    branch.status, branch.error = status, error
    if branch.turn is not None:
        leave(t, branch.turn, failed=status == "failed")
    t.conclude(BranchFinished(agent=branch.member, status=status, error=error))


def is_complete(t: Transition) -> bool:
    state = t.state.group
    assert state is not None, "only members have branches"
    statuses = [branch.status for branch in state.branches]
    if t.crew.groups[state.name].wait_for_all:
        return "working" not in statuses
    return "ok" in statuses or "working" not in statuses


def out_of_time(t: Transition) -> Move:
    state = t.state.group
    assert state is not None, "the group's timer is given up when it joins"
    _stop_the_rest(t, state, "late")
    return Join()


def _stop_the_rest(t: Transition, state: GroupState, status: str) -> None:
    for branch in state.branches:
        if branch.status == "working":
            _give_up(t, branch)
            _close(t, branch, status)


def _give_up(t: Transition, branch: Branch) -> None:
    turn = branch.turn
    if turn is None:
        assert branch.child is not None, "a member is an agent or a sub-crew"
        if branch.child.status in ("working", "waiting"):
            stop_child(t, branch.child)
        return
    abandon_work(t, turn)
    t.state.waits = [wait for wait in t.state.waits if wait.turn != turn.number or wait.child]


def join(t: Transition, move: Join) -> Move | None:
    state = t.state.group
    assert state is not None, "moves that join are made by the group's own branches and timer"
    group = t.crew.groups[state.name]
    _stop_the_rest(t, state, "cancelled")
    drop_timer(t, GROUP)
    t.state.group = None
    done = [branch for branch in state.branches if branch.status == "ok"]
    spoilt = group.on_error == "fail" and any(branch.status in ("failed", "late") for branch in state.branches)
    if spoilt or not done:
        return Finish("failed", "group_failed")
    take_results(t, [branch.child for branch in done if branch.child is not None])
    said = _merged(t, done)
    t.remember("user", "system", said.text, t.state.turns, said.frames)
    t.state.output = t.state.history[-1].text
    return _after(t, group, state, done)


def _merged(t: Transition, done: list[Branch]) -> Quoting:
    names = {agent.id: agent.name for agent in t.crew.agents}
    return merged("member", [(names.get(branch.member, branch.member), branch.reply) for branch in done])


def _after(t: Transition, group: Group, state: GroupState, done: list[Branch]) -> Move:
    if group.next_agent:
        t.conclude(GroupJoined(group=group.name, next=group.next_agent))
        return Begin(group.next_agent)
    decision = _decided_by_members(t, done)
    if decision is None:
        t.conclude(GroupJoined(group=group.name, next=state.starter))
        return Begin(state.starter)
    t.conclude(GroupJoined(group=group.name, next=decision.target))
    write_down(t, decision)
    t.state.agent = decision.agent
    return Follow(decision, by_member=True)


def _decided_by_members(t: Transition, done: list[Branch]) -> Decision | None:
    """The best of what the members' own marks ask for; members do not wait."""
    turns = [(branch.turn, branch.reply) for branch in done if branch.turn is not None]
    replies = [OwnReply(turn.agent, reply, emitted(turn.emits)) for turn, reply in turns]
    decisions = [t.table.member_decision(reply) for reply in replies]
    return min((decision for decision in decisions if decision is not None), key=t.table.rank_of, default=None)
