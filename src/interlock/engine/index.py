"""Lookups into a run's state by other keys, so that nothing is searched.

Rule 1: the index is derived from the state and not part of it. Code that changes one changes the other.
"""

from interlock.engine.state import RunState, turns_of


class Index:
    """The purpose of a timer and the agent of a tool, by key; the age rank of a mailbox, by agent."""

    def __init__(self, state: RunState) -> None:
        self.ticking = {timer.key: purpose for purpose, timer in state.timers.items() if timer.key}
        self.tools = {tool.key: turn.agent for turn in turns_of(state) for tool in turn.tools if tool.output is None}
        self.boxes = {agent: age for age, agent in enumerate(state.mailboxes)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]
