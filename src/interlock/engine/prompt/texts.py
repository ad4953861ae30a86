"""The texts of a crew's prompts that no run changes: instructions with their contract, and the legal endings.

Rule 1: each text is built once per crew, on first use, and shared by all its runs.
"""

from functools import cache

from interlock.crew.definition import CrewDefinition
from interlock.crew.templates import fill_prompt
from interlock.crew.tokens import text_tokens
from interlock.engine.delegation.agent_states import parent_of
from interlock.engine.kinds import TurnKind
from interlock.engine.prompt.contract import contract
from interlock.engine.prompt.grammar import ReplyEnding, ending_of
from interlock.engine.prompt.output_words import output_contract
from interlock.engine.prompt.phrases import briefing, frames_explanation
from interlock.engine.prompt.typed_reply import TypedReply, reply_form_of
from interlock.engine.routing.decision import OwnReply, RoutingTable


class PromptTexts:
    """`instructions`, `ending`, `typed_reply` and `longest` are cached: a text that is known costs no call."""

    def __init__(self, crew: CrewDefinition, table: RoutingTable) -> None:
        self.crew, self.table = crew, table
        self.agents = {agent.id: agent for agent in crew.agents}
        self.instructions = cache(self._build_instructions)
        self.ending = cache(self._build_ending)
        self.typed_reply = cache(self._build_typed_reply)
        self.longest = cache(self._measure_longest)

    def _build_instructions(
        self, agent_id: str, group: str = "", kind: TurnKind = TurnKind.FLOOR, is_side: bool = False
    ) -> str:
        """The agent's prompt with its fields filled, in one pass: values are never looked at again. Then its contract.

        A member of a group at work has another contract than the agent with the floor; so have a task and an advisory
        call, which has no prompt either. A side turn (`is_side`) is not asked for an output.
        """
        agent = self.agents[agent_id]
        if kind:
            rules = briefing(self.crew, kind, parent_of(self.crew, agent_id))
            if kind is not TurnKind.TASK:
                return rules
        else:
            rules = contract(self.table, agent, group)
        output = "" if kind or is_side else output_contract(self.crew, self.table.outputs.get(agent_id))
        parts = (fill_prompt(agent.system_prompt, agent).rstrip(), frames_explanation(self.crew), output, rules)
        text = "\n\n".join(part for part in parts if part)
        return text.strip() if kind else text

    def _build_ending(self, agent_id: str, group: str = "", kind: TurnKind = TurnKind.FLOOR) -> ReplyEnding | None:
        """The legal ending of a reply, if the crew constrains replies; that of a task or an advisory call is free."""
        return ending_of(self.crew, agent_id, group) if not kind else None

    def _build_typed_reply(self, agent_id: str, group: str = "", kind: TurnKind = TurnKind.FLOOR) -> TypedReply | None:
        """The form of a reply that is asked for a value, for clients that can hold a model to it."""
        if kind:
            return None
        asked = self.table.outputs.get(agent_id)
        needs_mark = self.table.decide(OwnReply(agent_id, "")).verb is None
        return reply_form_of(self.crew, agent_id, asked, group, needs_mark=needs_mark)

    def _measure_longest(self, agent_id: str) -> int:
        """The tokens of the agent's longest instructions, as current agent or as a member."""
        groups = [group.name for group in self.crew.groups.values() if agent_id in group.agents]
        longest = max(text_tokens(self.instructions(agent_id, group)) for group in ("", *groups))
        if self.crew.delegation is not None:
            longest += text_tokens(briefing(self.crew, TurnKind.TASK, parent_of(self.crew, agent_id)))
        return longest
