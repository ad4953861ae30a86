"""Errands: a call of the delegating agent's model beside its turn, to select children or to check a report.

Rule 1: an errand is asked at most twice; what cannot be used then is warned about, and the run goes on without.
Rule 2: it shows nothing but its own question, and what it says steers nothing.
"""

from interlock.engine.events import ChildrenSelected, ReportChecked, Warned
from interlock.engine.moves import Ask, CloseErrand, Conclude, Judged, Move
from interlock.engine.spending import abandon_call
from interlock.engine.standing import children_of
from interlock.engine.state import Message, Task, Turn, turn_of
from interlock.engine.timing import OF_TURNS, drop_timer
from interlock.engine.transition import CHECK, SELECT, Transition
from interlock.messages.refusals import BadVerdict
from interlock.messages.selection import REPAIRS_MAX, AgentSelector, Child, read_selection, repair
from interlock.messages.validation import TaskValidator, ValidationResult, read_verdict

ERRANDS = (SELECT, CHECK)


def select(t: Transition, turn: Turn) -> Move | None:
    """Who is needed is known, or asked for: the turn goes on when it is."""
    tree, children = t.crew.delegation, children_of(t.crew, turn.agent)
    assert tree is not None, "whoever has children is in a tree"
    if tree.select != "model":
        turn.children = children if tree.select == "all" else ()
        return None
    return _errand(t, turn.agent, SELECT, turn.agent, AgentSelector().prompt(_task(t, turn), _known(t, children)))


def _task(t: Transition, turn: Turn) -> str:
    task = t.task_of(turn)
    return task.assigned if task is not None else t.state.history[turn.history - 1].text


def _known(t: Transition, children: tuple[str, ...]) -> list[Child]:
    agents = {agent.id: agent for agent in t.crew.agents}
    found = [agents.get(child) for child in children]
    crews = [t.crew.sub_crews[child].description if child in t.crew.sub_crews else "" for child in children]
    return [
        Child(child, agent.role, agent.description) if agent is not None else Child(child, description=crew)
        for child, agent, crew in zip(children, found, crews, strict=True)
    ]


def check(t: Transition, task: Task, agent: str) -> Move:
    """Asks the delegating agent's model whether the report addresses the task."""
    assert task.report is not None, "only reports are checked"
    return _errand(t, agent, CHECK, task.worker, TaskValidator().prompt(task.assigned, task.report))


def _errand(t: Transition, agent: str, kind: str, about: str, prompt: str) -> Move:
    t.state.turns += 1
    said = [Message(role="user", text=prompt, author="system")]
    errand = Turn(number=t.state.turns, agent=agent, history=0, kind=kind, about=about, said=said)
    t.state.errands[about] = errand
    return Ask(errand)


def errand_done(t: Transition, move: Conclude) -> Move | None:
    errand, reply = move.turn, move.reply
    try:
        if errand.kind == SELECT:
            return _selected(t, errand, read_selection(reply, children_of(t.crew, errand.agent)), "model")
        verdict = read_verdict(reply)
    except BadVerdict as fault:
        if errand.rounds <= REPAIRS_MAX:
            errand.said.append(Message(role="assistant", text=reply))
            errand.said.append(Message(role="user", text=repair(fault), author="system"))
            return Ask(errand)
        return CloseErrand(errand, str(fault))
    del t.state.errands[errand.about]
    return _judged(t, errand, verdict)


def close_errand(t: Transition, move: CloseErrand) -> Move | None:
    """Nothing came of it: the agent works alone, or the rules alone have decided."""
    errand = move.turn
    abandon_errand(t, errand)
    if errand.kind == SELECT:
        message = f"whom {errand.agent} needs could not be found out: {move.error}; it works alone"
        t.conclude(Warned(code="selection-failed", message=message))
        return _selected(t, errand, (), "failed")
    message = f"the report to {errand.agent} could not be judged by its model: {move.error}; the rules decide alone"
    t.conclude(Warned(code="check-failed", message=message))
    return _judged(t, errand, ValidationResult(completed=True, reason="the rules passed"))


def abandon_errand(t: Transition, errand: Turn) -> None:
    abandon_call(t, errand)
    for purpose in OF_TURNS:
        drop_timer(t, f"{purpose}{errand.number}")
    del t.state.errands[errand.about]


def _selected(t: Transition, errand: Turn, children: tuple[str, ...], because: str) -> Move:
    t.state.errands.pop(errand.about, None)
    turn = turn_of(t.state, errand.agent)
    assert turn is not None, "an errand ends with the turn that it is for"
    turn.children = children
    t.conclude(ChildrenSelected(agent=turn.agent, children=children, because=because))
    return Ask(turn)


def _judged(t: Transition, errand: Turn, verdict: ValidationResult) -> Move:
    task = t.state.tasks[errand.about]
    assert task.report is not None, "only reports are checked"
    id_ = task.report.message_id
    t.conclude(ReportChecked(message_id=id_, ok=bool(verdict), by=verdict.by, reason=verdict.reason))
    return Judged(task, bool(verdict), verdict.reason)
