"""Selection of children for a task. The model names ids; unknown ids are refused, and it may try once more."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from interlock.errors import nearest
from interlock.messages.frames import in_frame
from interlock.messages.refusals import BadVerdict
from interlock.messages.validation import json_of

# How often a model is asked again if it did not answer with a list of known ids.
REPAIRS_MAX = 1


class Selectable(Protocol):
    """An agent that can get a task. Its `role` and `description` are shown, if it has them."""

    @property
    def id(self) -> str: ...


A = TypeVar("A", bound=Selectable)


class ChildSummary(msgspec.Struct, frozen=True):
    """A child in a few words."""

    id: str
    role: str = ""
    description: str = ""


class AgentSelector:
    """Selects the agents that a task needs; never all of them by default.

    The model's answer may be given to `select_agents`, or asked for by `ask_model`. Without either none is.
    """

    def __init__(self, ask_model: Callable[[str], Any] | None = None) -> None:
        self.ask_model = ask_model

    def select_agents(self, task: str, available_agents: Sequence[A], answer: Any = None) -> list[A]:
        """The agents, in the order of `available_agents`; `BadVerdict` if the answer is invalid after one retry."""
        if answer is not None:
            return self._agents_named_in(answer, available_agents)
        if not self._has_model or not available_agents:
            return []
        prompt = self.prompt(task, available_agents)
        for _ in range(REPAIRS_MAX):
            try:
                return self._agents_named_in(self.llm_select(prompt), available_agents)
            except BadVerdict as fault:
                prompt = f"{prompt}\n\n{repair_prompt(fault)}"
        return self._agents_named_in(self.llm_select(prompt), available_agents)

    def llm_select(self, prompt: str) -> Any:
        assert self.ask_model is not None, "asked only where there is a model"
        return self.ask_model(prompt)

    @property
    def _has_model(self) -> bool:
        return self.ask_model is not None or type(self).llm_select is not AgentSelector.llm_select

    def _agents_named_in(self, answer: Any, available: Sequence[A]) -> list[A]:
        ids = read_selection(answer, [agent.id for agent in available])
        return [agent for agent in available if agent.id in ids]

    def prompt(self, task: str, available_agents: Sequence[Selectable]) -> str:
        """The prompt for the model. The task is data, so it is in a frame."""
        return (
            f"Task:\n{in_frame('', 'task', task)}\n\nAvailable agents:\n{_agent_list(available_agents)}\n\n"
            "Which agents are needed for this task? Return a JSON array of agent IDs, and nothing else.\n"
            "Only select agents that are NECESSARY. Don't select all agents. An empty array means that you do it alone."
        )


def _agent_list(agents: Sequence[Selectable]) -> str:
    return "\n".join(f"- {agent.id}{_description_of(agent)}" for agent in agents)


def _description_of(agent: Selectable) -> str:
    words = [str(getattr(agent, name, "") or "") for name in ("role", "description")]
    summary = "; ".join(" ".join(word.split()) for word in words if word.strip())
    return f": {summary}" if summary else ""


def repair_prompt(fault: BadVerdict) -> str:
    """The prompt after an invalid answer. The fault may quote the answer, so it is in a frame."""
    return f"Your answer could not be used:\n{in_frame('', 'fault', str(fault))}"


def read_selection(answer: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Reads the ids that a model or host named, in the order of `known`; `BadVerdict` if one is unknown."""
    named = json_of(answer) if isinstance(answer, str) else answer
    if not isinstance(named, list | tuple) or not all(isinstance(id_, str) for id_ in named):
        raise BadVerdict('this is no list of ids; answer with a JSON array such as ["a", "b"], or []')
    strangers = [id_ for id_ in named if id_ not in known]
    if strangers:
        advice = nearest(strangers[0], known, f"there are {', '.join(known)}")
        raise BadVerdict(f"nobody here is called '{strangers[0]}'; {advice}")
    return tuple(id_ for id_ in known if id_ in named)
