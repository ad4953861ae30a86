"""Rules about parts without an effect: limits that are too low, and things that are never used."""

from collections.abc import Iterator

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.checks.template_fields import can_write_memory
from interlock.crew.definition import AgentDefinition, CrewDefinition
from interlock.crew.graph import control, present
from interlock.crew.nodes import Path
from interlock.crew.problem import Severity
from interlock.crew.templates import fields_of_input, fill_prompt
from interlock.crew.tokens import text_tokens
from interlock.errors import closest


def prompts_fit_their_limits(s: CheckSubject) -> None:
    """A call sends the prompt and more, so such a limit prevents every call."""
    for agent in s.crew.agents:
        tokens = text_tokens(fill_prompt(agent.system_prompt, agent))
        for limit, path in _limits_of_calls(s, agent):
            if tokens > limit:
                message = f"the prompt of agent '{agent.id}' is about {tokens} tokens, max_tokens_per_call is {limit}"
                fix = "raise the limit, or shorten the prompt"
                if path:
                    s.add_at_agent(agent.id, path, "limit-below-prompt", message, fix, Severity.WARNING)
                else:
                    where = ("settings", "max_tokens_per_call")
                    s.add_at(where, "limit-below-prompt", message, fix, Severity.WARNING)


def _limits_of_calls(s: CheckSubject, agent: AgentDefinition) -> Iterator[tuple[int, Path]]:
    own, of_crew = agent.cost_limits, s.crew.settings.max_tokens_per_call
    if own is not None and own.max_tokens_per_call is not None:
        yield own.max_tokens_per_call, ("cost_limits", "max_tokens_per_call")
    if of_crew is not None:
        yield of_crew, ()


def sub_crews_are_used(s: CheckSubject) -> None:
    if s.is_unreadable(("routing",)) or s.is_unreadable(("delegation",)):
        return
    used = {_sub_crew_meant_by(s, name) for name in _callee_names(s)}
    for name in s.crew.sub_crews:
        if name not in used:
            _warn_unused(
                s, ("sub_crews", name), f"nothing calls sub-crew '{name}'", "route a signal to it, or remove it"
            )


def _callee_names(s: CheckSubject) -> Iterator[str]:
    yield from (route.target_crew for _, route, _ in s.routes() if route.target_crew)
    for group in s.crew.groups.values():
        yield from group.agents
    for children in s.crew.delegation.children.values() if s.crew.delegation else ():
        yield from children


def _sub_crew_meant_by(s: CheckSubject, name: str) -> str:
    """The sub-crew that a name means. A misspelled name is reported as such, and counts as use of the right one."""
    known = name in s.ids or name in s.crew.sub_crews
    return name if known else closest(name, list(s.crew.sub_crews)) or name


def groups_are_used(s: CheckSubject) -> None:
    """A group with unreachable members is not reported: the members are, and that is the same mistake."""
    if s.is_unreadable(("routing",)):
        return
    used = {s.guesser.guess_target(route.target) for _, route, _ in s.routes()}
    for name in s.groups_with_names:
        members = [member for member in s.crew.groups[name].agents if member in s.ids]
        reached = all(
            control(member) in s.reachable_points or present(member) in s.reachable_points for member in members
        )
        if name not in used and name not in s.ambiguous_names and members and reached:
            path = ("routing", "parallel_groups", name)
            _warn_unused(s, path, f"nothing starts group '{name}'", "route a signal to it, or remove it")


def memory_is_read(s: CheckSubject) -> None:
    """Asked of the outermost crew only: what a sub-crew writes comes back to its caller."""
    if s.source.is_called or not can_write_memory(s.crew) or any(map(_can_read_memory, s.crew.whole_tree())):
        return
    for agent in s.crew.agents:
        if "memory_write" in agent.tools:
            message = f"agent '{agent.id}' writes to the shared memory, but no agent reads it"
            fix = "give an agent the tool memory_read, use {{.SharedMemory.KEY}} in a template, or remove the tool"
            path = ("tools", agent.tools.index("memory_write"))
            s.add_at_agent(agent.id, path, "unused", message, fix, Severity.WARNING)


def _can_read_memory(crew: CrewDefinition) -> bool:
    templates = (route.input_template for routes in crew.routes.values() for route in routes)
    named = (field for template in templates for field, _ in fields_of_input(template))
    return "SharedMemory" in named or any("memory_read" in agent.tools for agent in crew.agents)


def _warn_unused(s: CheckSubject, path: Path, message: str, fix: str) -> None:
    s.add_at(path, "unused", message, fix, Severity.WARNING)
