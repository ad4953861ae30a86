"""Advisory calls of a delegating agent's model beside its turn: to select children, or to check a report.

Rule 1: the model is asked at most twice; an unusable answer is then a warning, and the run continues without it.
Rule 2: the call shows only its own question, and its reply steers nothing.
"""

from interlock.engine.budgets.spending import cancel_call_and_reservation
from interlock.engine.delegation.agent_states import children_of
from interlock.engine.events import ChildrenSelected, ReportChecked, Warned
from interlock.engine.kinds import TurnKind
from interlock.engine.stages import AskModel, ConcludeTurn, FailAdvisoryCall, ReportVerdict, Stage
from interlock.engine.state import Task, Turn, TurnMessage, turn_of
from interlock.engine.timers import drop_turn_timers
from interlock.engine.transition import Transition
from interlock.messages.refusals import BadVerdict
from interlock.messages.selection import REPAIRS_MAX, AgentSelector, ChildSummary, read_selection, repair_prompt
from interlock.messages.validation import TaskValidator, ValidationResult, read_verdict


def select_children(t: Transition, turn: Turn) -> Stage | None:
    """Sets the turn's children, or asks the model to select them first."""
    tree, children = t.crew.delegation, children_of(t.crew, turn.agent)
    assert tree is not None, "an agent with children is in a tree"
    if tree.select != "model":
        turn.children = children if tree.select == "all" else ()
        return None
    return _start_advisory_call(
        t,
        turn.agent,
        TurnKind.SELECT,
        turn.agent,
        AgentSelector().prompt(_task_text(t, turn), _child_summaries(t, children)),
    )


def _task_text(t: Transition, turn: Turn) -> str:
    task = t.task_of(turn)
    return task.assigned if task is not None else t.state.history[turn.history - 1].text


def _child_summaries(t: Transition, children: tuple[str, ...]) -> list[ChildSummary]:
    agents = {agent.id: agent for agent in t.crew.agents}
    found = [agents.get(child) for child in children]
    crews = [t.crew.sub_crews[child].description if child in t.crew.sub_crews else "" for child in children]
    return [
        ChildSummary(child, agent.role, agent.description)
        if agent is not None
        else ChildSummary(child, description=crew)
        for child, agent, crew in zip(children, found, crews, strict=True)
    ]


def check_report_by_model(t: Transition, task: Task, agent: str) -> Stage:
    """Asks the delegating agent's model whether the report addresses the task."""
    assert task.report is not None, "only reports are checked"
    return _start_advisory_call(
        t, agent, TurnKind.CHECK, task.worker, TaskValidator().prompt(task.assigned, task.report)
    )


def _start_advisory_call(t: Transition, agent: str, kind: TurnKind, about: str, prompt: str) -> Stage:
    t.state.turns += 1
    said = [TurnMessage(role="user", text=prompt, author="system")]
    advisory = Turn(number=t.state.turns, agent=agent, history=0, kind=kind, about=about, said=said)
    t.state.advisory_turns[about] = advisory
    return AskModel(advisory)


def on_advisory_reply(t: Transition, stage: ConcludeTurn) -> Stage:
    advisory, reply = stage.turn, stage.reply
    try:
        if advisory.kind is TurnKind.SELECT:
            return _apply_selection(t, advisory, read_selection(reply, children_of(t.crew, advisory.agent)), "model")
        verdict = read_verdict(reply)
    except BadVerdict as fault:
        if advisory.rounds <= REPAIRS_MAX:
            advisory.said.append(TurnMessage(role="assistant", text=reply))
            advisory.said.append(TurnMessage(role="user", text=repair_prompt(fault), author="system"))
            return AskModel(advisory)
        return FailAdvisoryCall(advisory, str(fault))
    del t.state.advisory_turns[advisory.about]
    return _record_verdict(t, advisory, verdict)


def fail_advisory_call(t: Transition, stage: FailAdvisoryCall) -> Stage | None:
    """Continues without an answer: the agent works alone, or the rules alone decide."""
    advisory = stage.turn
    cancel_advisory_call(t, advisory)
    if advisory.kind is TurnKind.SELECT:
        message = f"whom {advisory.agent} needs could not be found out: {stage.error}; it works alone"
        t.record(Warned(code="selection-failed", message=message))
        return _apply_selection(t, advisory, (), "failed")
    message = f"the report to {advisory.agent} could not be judged by its model: {stage.error}; the rules decide alone"
    t.record(Warned(code="check-failed", message=message))
    return _record_verdict(t, advisory, ValidationResult(completed=True, reason="the rules passed"))


def cancel_advisory_call(t: Transition, advisory: Turn) -> None:
    cancel_call_and_reservation(t, advisory)
    drop_turn_timers(t, advisory)
    del t.state.advisory_turns[advisory.about]


def _apply_selection(t: Transition, advisory: Turn, children: tuple[str, ...], because: str) -> Stage:
    t.state.advisory_turns.pop(advisory.about, None)
    turn = turn_of(t.state, advisory.agent)
    assert turn is not None, "an advisory call ends with its turn"
    turn.children = children
    t.record(ChildrenSelected(agent=turn.agent, children=children, because=because))
    return AskModel(turn)


def _record_verdict(t: Transition, advisory: Turn, verdict: ValidationResult) -> Stage:
    task = t.state.tasks[advisory.about]
    assert task.report is not None, "only reports are checked"
    id_ = task.report.message_id
    t.record(ReportChecked(message_id=id_, ok=bool(verdict), by=verdict.by, reason=verdict.reason))
    return ReportVerdict(task, bool(verdict), verdict.reason)
