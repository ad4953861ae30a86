"""The end of all conversations, when the run is over."""

from interlock.engine.mail import settle_all
from interlock.engine.moves import Finish
from interlock.engine.standing import moved_if_at_work
from interlock.engine.transition import Transition
from interlock.messages.states import Cause


def end_conversations(t: Transition, move: Finish) -> None:
    """The run is over: nothing is left open, and nobody is at work."""
    if not t.state.mailboxes and not t.state.agents:
        return
    failed = move.status in ("failed", "stopped")
    t.state.tasks, t.state.errands = {}, {}
    for agent in list(t.state.mailboxes):
        settle_all(t, agent, "the run is over", notes=True)
    for agent in list(t.state.agents):
        moved_if_at_work(t, agent, Cause.FAILED if failed and agent == t.state.agent else Cause.GIVEN_UP)
