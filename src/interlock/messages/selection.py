"""Which children a task needs. The model names ids; ids that nobody has are refused, and it may try once more."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from interlock.errors import nearest
from interlock.frames import in_frame
from interlock.messages.refusals import BadVerdict
from interlock.messages.validation import json_of

# A model that did not answer with a list of known ids is asked again so often.
REPAIRS_MAX = 1


class Selectable(Protocol):
    """Whoever can be given a task. What it is good for is read from `role` and `description`, if it has them."""

    @property
    def id(self) -> str: ...


A = TypeVar("A", bound=Selectable)


class Child(msgspec.Struct, frozen=True):
    """A child in a few words."""

    id: str
    role: str = ""
    description: str = ""


class AgentSelector:
    """Determines which agents a task needs; never all of them because nobody asked.

    The model's answer may be given to `select_agents`, or asked for by `ask_model`. Without either nobody is named.
    """

    def __init__(self, ask_model: Callable[[str], Any] | None = None) -> None:
        self.ask_model = ask_model

    def select_agents(self, task: str, available_agents: Sequence[A], answer: Any = None) -> list[A]:
        """In the order in which they are available; `BadVerdict` if the answer cannot be used, after one repair."""
        if answer is not None:
            return self._named(answer, available_agents)
        if not self._has_model or not available_agents:
            return []
        prompt = self.prompt(task, available_agents)
        for _ in range(REPAIRS_MAX):
            try:
                return self._named(self.llm_select(prompt), available_agents)
            except BadVerdict as fault:
                prompt = f"{prompt}\n\n{repair(fault)}"
        return self._named(self.llm_select(prompt), available_agents)

    def llm_select(self, prompt: str) -> Any:
        assert self.ask_model is not None, "asked only where there is a model"
        return self.ask_model(prompt)

    @property
    def _has_model(self) -> bool:
        return self.ask_model is not None or type(self).llm_select is not AgentSelector.llm_select

    def _named(self, answer: Any, available: Sequence[A]) -> list[A]:
        ids = read_selection(answer, [agent.id for agent in available])
        return [agent for agent in available if agent.id in ids]

    def prompt(self, task: str, available_agents: Sequence[Selectable]) -> str:
        """What a model is asked. The task is data: it stands in a frame."""
        return (
            f"Task:\n{in_frame('', 'task', task)}\n\nAvailable agents:\n{_listed(available_agents)}\n\n"
            "Which agents are needed for this task? Return a JSON array of agent IDs, and nothing else.\n"
            "Only select agents that are NECESSARY. Don't select all agents. An empty array means that you do it alone."
        )


def _listed(agents: Sequence[Selectable]) -> str:
    return "\n".join(f"- {agent.id}{_good_for(agent)}" for agent in agents)


def _good_for(agent: Selectable) -> str:
    words = [str(getattr(agent, name, "") or "") for name in ("role", "description")]
    told = "; ".join(" ".join(word.split()) for word in words if word.strip())
    return f": {told}" if told else ""


def repair(fault: BadVerdict) -> str:
    """What a model is told whose answer could not be used. The fault may quote it, so it stands in a frame."""
    return f"Your answer could not be used:\n{in_frame('', 'fault', str(fault))}"


def read_selection(answer: Any, known: Sequence[str]) -> tuple[str, ...]:
    """The ids that a model, or a host, named, in the order of `known`; `BadVerdict` if there is another among them."""
    named = json_of(answer) if isinstance(answer, str) else answer
    if not isinstance(named, list | tuple) or not all(isinstance(id_, str) for id_ in named):
        raise BadVerdict('this is no list of ids; answer with a JSON array such as ["a", "b"], or []')
    strangers = [id_ for id_ in named if id_ not in known]
    if strangers:
        advice = nearest(strangers[0], known, f"there are {', '.join(known)}")
        raise BadVerdict(f"nobody here is called '{strangers[0]}'; {advice}")
    return tuple(id_ for id_ in known if id_ in named)
