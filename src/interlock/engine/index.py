"""What is looked up in a run's state by something other than its name, so that nothing is searched for.

Rule 1: all of it follows from the state, and is no part of it. Whoever changes the one changes the other.
"""

from interlock.engine.state import RunState, turns_of


class Index:
    """What a timer is for and whose a tool is, by the keys of both; how old a mailbox is among all."""

    def __init__(self, state: RunState) -> None:
        self.ticking = {timer.key: purpose for purpose, timer in state.timers.items() if timer.key}
        self.tools = {tool.key: turn.agent for turn in turns_of(state) for tool in turn.tools if tool.output is None}
        self.boxes = {agent: age for age, agent in enumerate(state.mailboxes)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
