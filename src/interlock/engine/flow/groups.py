"""Parallel groups: members start from the same history, and their replies become one entry.

A sub-crew may be a member: it gets this run's input, and its reply steers nothing here.
"""

from collections.abc import Sequence

from interlock.crew.definition import GroupDefinition
from interlock.engine.events import BranchFinished, GroupJoined, GroupStarted
from interlock.engine.flow.control import keep_value, record_decision
from interlock.engine.flow.sub_crews import (
    SHARED,
    allowances_for_child,
    first_exhausted_bound,
    merge_results,
    start_child,
    stop_child,
    stop_for_shortage,
)
from interlock.engine.kinds import OPEN, RunStatus, WorkStatus
from interlock.engine.outputs.checked_reply import steering_text
from interlock.engine.prompt.phrases import merge_replies
from interlock.engine.routing.decision import Decision, OwnReply
from interlock.engine.routing.emit_signal import emission_names
from interlock.engine.stages import ApplyDecision, CloseBranch, FinishRun, JoinGroup, Stage, StartGroup, StartTurn
from interlock.engine.state import Branch, GroupState
from interlock.engine.timers import GROUP, drop_timer, start_timer
from interlock.engine.transition import Transition
from interlock.engine.turns.cancellation import abort_turn, cancel_turn_work
from interlock.engine.turns.start import claim_inbox_or_ask, new_turn
from interlock.engine.turns.turn import ask_immediately
from interlock.messages.frames import Quoting


def start_group(t: Transition, stage: StartGroup) -> Stage | None:
    decision = stage.decision
    group = t.crew.groups[decision.target]
    short = first_exhausted_bound(t, len(group.agents), _bounds_that_count(t, group))
    if short is not None:
        return stop_for_shortage(t, short, len(group.agents))
    t.record(GroupStarted(group=group.name, members=group.agents))
    branches = [_start_branch(t, group, member) for member in group.agents]
    t.state.group = GroupState(name=group.name, starter=decision.agent, branches=branches)
    seconds = t.settings.parallel_timeout_seconds if group.timeout_seconds is None else group.timeout_seconds
    start_timer(t, GROUP, int(seconds * 1000))
    for branch in branches:
        first = claim_inbox_or_ask(t, branch.turn) if branch.turn is not None else None
        after = ask_immediately(t, branch.turn) if branch.turn is not None and first is not None else None
        if isinstance(after, FinishRun):
            return after
    return None


def _bounds_that_count(t: Transition, group: GroupDefinition) -> Sequence[str]:
    """The bounds to share: calls only for agents, all of them if a sub-crew is a member."""
    return SHARED if any(member in t.crew.sub_crews for member in group.agents) else ("calls",)


def _start_branch(t: Transition, group: GroupDefinition, member: str) -> Branch:
    if member not in t.crew.sub_crews:
        return Branch(member=member, turn=new_turn(t, member))
    given = allowances_for_child(t, member, len(group.agents))
    return Branch(member=member, child=start_child(t, member, t.state.input, given))


def close_branch(t: Transition, stage: CloseBranch) -> Stage | None:
    _cancel_branch(t, stage.branch)  # a branch may fail by one tool while others run or wait
    _end_branch(t, stage.branch, stage.status, stage.error)
    return JoinGroup() if is_group_complete(t) else None


def _end_branch(t: Transition, branch: Branch, status: WorkStatus, error: str = "") -> None:
    branch.status, branch.error = status, error
    if branch.turn is not None:
        abort_turn(t, branch.turn, failed=status is WorkStatus.FAILED)
    t.record(BranchFinished(agent=branch.member, status=str(status), error=error))


def is_group_complete(t: Transition) -> bool:
    state = t.state.group
    assert state is not None, "only members have branches"
    statuses = [branch.status for branch in state.branches]
    if t.crew.groups[state.name].wait_for_all:
        return WorkStatus.WORKING not in statuses
    return WorkStatus.OK in statuses or WorkStatus.WORKING not in statuses


def on_group_timeout(t: Transition) -> Stage:
    state = t.state.group
    assert state is not None, "the group's timer is dropped when it joins"
    _stop_open_branches(t, state, WorkStatus.LATE)
    return JoinGroup()


def _stop_open_branches(t: Transition, state: GroupState, status: WorkStatus) -> None:
    for branch in state.branches:
        if branch.status is WorkStatus.WORKING:
            _cancel_branch(t, branch)
            _end_branch(t, branch, status)


def _cancel_branch(t: Transition, branch: Branch) -> None:
    turn = branch.turn
    if turn is None:
        assert branch.child is not None, "a member is an agent or a sub-crew"
        if branch.child.status in OPEN:
            stop_child(t, branch.child)
        return
    cancel_turn_work(t, turn)
    t.state.waits = [wait for wait in t.state.waits if wait.turn != turn.number or wait.child]


def join_group(t: Transition, stage: JoinGroup) -> Stage | None:
    state = t.state.group
    assert state is not None, "only a group's branches and its timer join it"
    group = t.crew.groups[state.name]
    _stop_open_branches(t, state, WorkStatus.CANCELLED)
    drop_timer(t, GROUP)
    t.state.group = None
    done = [branch for branch in state.branches if branch.status is WorkStatus.OK]
    has_failed = group.on_error == "fail" and any(
        branch.status in (WorkStatus.FAILED, WorkStatus.LATE) for branch in state.branches
    )
    if has_failed or not done:
        return FinishRun(RunStatus.FAILED, "group_failed")
    merge_results(t, [branch.child for branch in done if branch.child is not None])
    said = _merge_member_replies(t, done)
    t.add_history("user", "system", said.text, t.state.turns, said.frames)
    t.state.output = t.state.history[-1].text
    return _move_after_join(t, group, state, done)


def _merge_member_replies(t: Transition, done: list[Branch]) -> Quoting:
    names = {agent.id: agent.name for agent in t.crew.agents}
    return merge_replies("member", [(names.get(branch.member, branch.member), branch.reply) for branch in done])


def _move_after_join(t: Transition, group: GroupDefinition, state: GroupState, done: list[Branch]) -> Stage:
    if group.next_agent:
        t.record(GroupJoined(group=group.name, next=group.next_agent))
        return StartTurn(group.next_agent)
    decision = _decision_of_members(t, done)
    if t.table.outputs:
        keep_value(t, next((branch for branch in done if decision and branch.member == decision.agent), None))
    if decision is None:
        t.record(GroupJoined(group=group.name, next=state.starter))
        return StartTurn(state.starter)
    t.record(GroupJoined(group=group.name, next=decision.target))
    record_decision(t, decision)
    t.state.agent = decision.agent
    return ApplyDecision(decision, by_member=True)


def _decision_of_members(t: Transition, done: list[Branch]) -> Decision | None:
    """The best decision among the members' own marks; members do not wait."""
    turns = [(branch.turn, branch.reply) for branch in done if branch.turn is not None]
    replies = [OwnReply(turn.agent, steering_text(t, turn, reply), emission_names(turn.emits)) for turn, reply in turns]
    decisions = [t.table.member_decision(reply) for reply in replies]
    return min((decision for decision in decisions if decision is not None), key=t.table.rank_of, default=None)
