"""Rules about typed results: every way to an ending yields the crew's output, and what is taken is given.

What cannot be proven is an error, with the reason: the same schema in both places always fits.
"""

from typing import Any

import msgspec

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.graph import control
from interlock.crew.outputs.asked import ending_agents
from interlock.crew.outputs.fit import misfit_of
from interlock.crew.outputs.keywords import Schema
from interlock.crew.problem import Severity
from interlock.crew.templates import as_placeholder, fields_of_input, result_field

_SAME = "use the same schema in both places, or correct one of them"


def endings_give_the_output(s: CheckSubject) -> None:
    """Agents without an output of their own are asked for the crew's, so only another one can be wrong."""
    if s.crew.output is msgspec.UNSET:
        return
    for name in ending_agents(s.graph):
        agent = s.ids.get(name)
        if agent is None or agent.output is msgspec.UNSET:
            continue
        misfit = misfit_of(agent.output, s.crew.output)
        if misfit:
            message = f"agent '{name}' can end the run, but its output is not the crew's: {misfit}"
            s.add_at_agent(name, ("output",), "wrong-output", message, f"remove it, or {_SAME}")


def routes_take_what_is_given(s: CheckSubject) -> None:
    for name, route, path in s.routes():
        agent = s.ids.get(name)
        if route.takes is msgspec.UNSET or agent is None:
            continue
        if agent.output is msgspec.UNSET:
            if name not in s.source.unclear and not s.source.has_value(name, "output"):
                message = f"{route.signal} takes an output, but agent '{name}' has none"
                s.add_at((*path, "takes"), "wrong-output", message, f"give agent '{name}' an output, or remove takes")
            continue
        misfit = misfit_of(agent.output, route.takes)
        if misfit:
            message = f"{route.signal} does not take the output of agent '{name}': {misfit}"
            s.add_at((*path, "takes"), "wrong-output", message, _SAME)


def sub_crews_give_what_is_expected(s: CheckSubject) -> None:
    for name, sub in s.crew.sub_crews.items():
        if sub.output is msgspec.UNSET or sub.crew is None:
            continue
        misfit = "it has none" if sub.crew.output is msgspec.UNSET else misfit_of(sub.crew.output, sub.output)
        if misfit:
            message = f"the output of sub-crew '{name}' is not what this crew expects: {misfit}"
            s.add_at(("sub_crews", name, "output"), "wrong-output", message, _SAME)


def templates_use_parts_that_results_have(s: CheckSubject) -> None:
    """A part of a result, `{{.PreviousResults.crew.part}}`, is one that each output of the sub-crew has."""
    for _, route, path in s.routes():
        for field, key in dict.fromkeys(fields_of_input(route.input_template)):
            crew, part = result_field(key, tuple(s.crew.sub_crews)) if field == "PreviousResults" else ("", ())
            inner = s.crew.sub_crews[crew].crew if part else None
            misfit = "" if inner is None or inner.output is msgspec.UNSET else _missing_part(inner.output, part)
            if misfit:
                message = f"{as_placeholder(field, key)} is not a part of each output of '{crew}': {misfit}"
                fix = f"name a required property of its output, or write {as_placeholder(field, crew)}"
                s.add_at((*path, "input_template"), "wrong-output", message, fix)


def _missing_part(schema: Schema, part: tuple[str, ...]) -> str:
    """Why a value may be without this part; empty if each has it."""
    wanted: dict[str, Any] = {}
    for name in reversed(part):
        wanted = {"type": "object", "required": [name], "properties": {name: wanted}}
    return misfit_of(schema, wanted)


def outputs_are_asked_for(s: CheckSubject) -> None:
    """A warning for an agent that only does delegated tasks or acts on broadcasts: there no output is asked for."""
    members = {member for group in s.crew.groups.values() for member in group.agents}
    for agent in s.crew.agents:
        is_asked = control(agent.id) in s.reachable_points or agent.id in members
        if agent.output is not msgspec.UNSET and not is_asked and s.crew.entry_point in s.ids:
            message = f"the output of agent '{agent.id}' is never asked for: it only does tasks or acts on broadcasts"
            s.add_at_agent(agent.id, ("output",), "unused", message, "remove it", Severity.WARNING)
