"""Parallel groups: members start from the same history, and their replies become one entry."""

from interlock.crew.definition import Group
from interlock.engine.delegating import asked_at_once, leave
from interlock.engine.emitting import emitted
from interlock.engine.events import BranchFinished, GroupJoined, GroupStarted, LimitReached
from interlock.engine.moves import Begin, CloseBranch, Finish, Follow, Fork, Join, Move
from interlock.engine.phrases import merged
from interlock.engine.routing import Decision, OwnReply
from interlock.engine.spending import abandon_call
from interlock.engine.state import Branch, GroupState
from interlock.engine.steering import write_down
from interlock.engine.timing import GROUP, OF_TURNS, drop_timer, start_timer
from interlock.engine.transition import Transition
from interlock.engine.turns import new_turn


def fork(t: Transition, move: Fork) -> Move | None:
    decision = move.decision
    group = t.crew.groups[decision.target]
    most = t.settings.max_calls_per_run
    if most is not None and t.state.usage.calls + len(group.agents) > most:
        t.conclude(LimitReached(limit="max_calls_per_run"))
        return Finish("stopped", "budget:calls")
    t.conclude(GroupStarted(group=group.name, members=group.agents))
    branches = [Branch(turn=new_turn(t, member)) for member in group.agents]
    t.state.group = GroupState(name=group.name, starter=decision.agent, branches=branches)
    seconds = t.settings.parallel_timeout_seconds if group.timeout_seconds is None else group.timeout_seconds
    start_timer(t, GROUP, int(seconds * 1000))
    for branch in branches:
        spent = asked_at_once(t, branch.turn)
        if isinstance(spent, Finish):
            return spent
    return None


def close_branch(t: Transition, move: CloseBranch) -> Move | None:
    _give_up(t, move.branch)  # a branch may fail by one of its tools while others run or wait for a person
    _close(t, move.branch, move.status, move.error)
    return Join() if is_complete(t) else None


def _close(t: Transition, branch: Branch, status: str, error: str = "") -> None:
    branch.status, branch.error = status, error
    leave(t, branch.turn, failed=status == "failed")
    t.conclude(BranchFinished(agent=branch.turn.agent, status=status, error=error))


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
    abandon_call(t, turn)
    for purpose in OF_TURNS:
        drop_timer(t, f"{purpose}{turn.number}")
    for tool in turn.tools:
        if tool.output is None:
            t.give_up(tool.key)
    t.state.waits = [wait for wait in t.state.waits if wait.turn != turn.number]


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
    t.remember("user", "system", _merged(t, done), t.state.turns)
    t.state.output = t.state.history[-1].text
    return _after(t, group, state, done)


def _merged(t: Transition, done: list[Branch]) -> str:
    names = {agent.id: agent.name for agent in t.crew.agents}
    return merged([(names[branch.turn.agent], branch.reply) for branch in done])


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
    replies = [OwnReply(branch.turn.agent, branch.reply, emitted(branch.turn.emits)) for branch in done]
    decisions = [t.table.member_decision(reply) for reply in replies]
    return min((decision for decision in decisions if decision is not None), key=t.table.rank_of, default=None)
