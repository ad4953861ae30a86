"""Rules about agents: the things they name exist, and their prompts mention known signals only."""

import re
import unicodedata

from interlock.crew.checks.subject import CheckSubject
from interlock.crew.host import BUILT_IN_TOOLS, PROVIDERS, Host
from interlock.crew.nodes import Mapping, Path, SourceLocation
from interlock.crew.problem import Severity
from interlock.crew.templates import unknown_prompt_fields
from interlock.errors import nearest
from interlock.signals.matching import normal_form


def agents_hand_over_to_agents(s: CheckSubject) -> None:
    for agent in s.crew.agents:
        for n, target in enumerate(agent.handoff_targets):
            if target not in s.ids:
                s.add_at_agent(
                    agent.id,
                    ("handoff_targets", n),
                    "unknown-target",
                    f"agent '{agent.id}' hands over to unknown agent '{target}'",
                    nearest(target, list(s.ids), "name an agent of this crew"),
                )


_DEFINE = "define it under 'signals' in crew.yaml", 'define it in Crew(signals=[{"name": …}])'


def agents_narrow_to_known_signals(s: CheckSubject) -> None:
    known = {*s.definitions, *(route.signal for _, route, _ in s.routes())}
    for agent in s.crew.agents:
        for n, signal in enumerate(agent.signals or ()):
            if signal not in known:
                s.add_at_agent(
                    agent.id,
                    ("signals", n),
                    "unregistered-signal",
                    f"signal '{signal}' is not registered (unknown signal)",
                    nearest(signal, sorted(known), s.source.fix(*_DEFINE)),
                )


def tools_exist(s: CheckSubject) -> None:
    known = (*BUILT_IN_TOOLS, *s.host.tools)
    severity = Severity.WARNING if s.crew.version == "1.0" else Severity.ERROR
    for agent in s.crew.agents:
        for n, tool in enumerate(agent.tools):
            if tool.startswith("mcp:"):
                message, fix = _mcp_tool_problem(s.host, tool)
            elif tool in known:
                continue
            else:
                message = f"agent '{agent.id}' uses unknown tool '{tool}'"
                name_it = f"name its module under [tools] modules in {s.host.file_to_edit}"
                fix = nearest(
                    tool, known, s.source.fix(name_it, f"give the function itself in tools=[…], or {name_it}")
                )
            if message:
                s.add_at_agent(agent.id, ("tools", n), "unknown-tool", message, fix, severity)


def tools_can_be_called(s: CheckSubject) -> None:
    """Includes tools that no agent lists: a run refuses to import a module with such a function."""
    for tool in s.host.uncallable_tools:
        s.problems.add(
            "uncallable-tool",
            f"tool '{tool.name}' cannot be called: its parameter '{tool.parameter}' takes values without a name",
            place=SourceLocation(tool.file, tool.line, 1),
            fix="give each parameter a name and a type, or begin the function's name with _ if it is not a tool",
        )


# Tools that an agent gets by its place in the delegation tree, listed or not.
_OF_PARENTS, _OF_CHILDREN = ("delegate", "answer_child"), ("report", "query_parent")


def tools_have_their_place(s: CheckSubject) -> None:
    tree = s.crew.delegation
    parents, children = (tree.children, tree.parents) if tree is not None else ({}, {})
    for agent in s.crew.agents:
        has = (*(_OF_PARENTS if parents.get(agent.id) else ()), *(_OF_CHILDREN if agent.id in children else ()))
        for n, tool in enumerate(agent.tools):
            if tool in (*_OF_PARENTS, *_OF_CHILDREN) and tool not in has:
                needs = "children" if tool in _OF_PARENTS else "a parent"
                message = f"agent '{agent.id}' lists '{tool}', which needs {needs} in the delegation tree; it has none"
                fix = f"give it {needs} under delegation.children, or remove the tool from its list"
                s.add_at_agent(agent.id, ("tools", n), "misplaced-key", message, fix, Severity.WARNING)


def _mcp_tool_problem(host: Host, tool: str) -> tuple[str, str]:
    """The problem with the name of an MCP tool, and its fix; both empty if there is none."""
    server, _, name = tool.removeprefix("mcp:").partition("/")
    if server not in host.mcp_servers:
        return f"there is no MCP server '{server}'", f"add [mcp.{server}] to {host.file_to_edit}"
    allowed = host.mcp_tools.get(server)
    if not name or allowed is None or name in allowed:
        return "", ""
    return f"crews may not use '{name}' of MCP server '{server}'", nearest(
        name, allowed, f"add it to tools of [mcp.{server}] in interlock.toml"
    )


def providers_exist(s: CheckSubject) -> None:
    known = (*PROVIDERS, *s.host.providers)
    for agent in s.crew.agents:
        for key, model in (("primary", agent.primary), ("backup", agent.backup)):
            if model is None or model.provider in known or not model.provider:
                continue
            s.add_at_agent(
                agent.id,
                provider_path(s, agent.id, key),
                "unknown-provider",
                f"unknown provider '{model.provider}' {_missing_section_note(s.host, model.provider)}".rstrip(),
                nearest(model.provider, known, f"add [providers.{model.provider}] to {s.host.file_to_edit}"),
            )


def _missing_section_note(host: Host, provider: str) -> str:
    return f"(no [providers.{provider}] in {host.file})" if host.file else ""


def provider_path(s: CheckSubject, agent: str, key: str) -> Path:
    """The path of `provider` if it was written, else of the `model` that names it; flat in older files."""
    node = s.source.agent_node(agent)
    section = node.get(key) if isinstance(node, Mapping) else None
    path: Path = (key,) if section is not None else ()
    holder = section if section is not None else node
    return (*path, "provider" if isinstance(holder, Mapping) and holder.get("provider") else "model")


def prompts_use_known_fields(s: CheckSubject) -> None:
    for agent in s.crew.agents:
        for field in unknown_prompt_fields(agent.system_prompt):
            s.add_at_agent(
                agent.id,
                ("system_prompt",),
                "unknown-field",
                f"unknown field {field} in a prompt",
                "use {{name}}, {{role}}, {{description}} or {{backstory}}",
            )


# A mark in a prompt: capitals, so that "[your name]" is not one, and not the text of a link.
_MARK_IN_PROMPT = re.compile(r"(?<!\\)\[([^\[\]]{2,60})\](?!\()")


def prompts_use_known_marks(s: CheckSubject) -> None:
    for agent in s.crew.agents:
        for text in dict.fromkeys(_MARK_IN_PROMPT.findall(agent.system_prompt)):
            if sum(char.isalpha() for char in text) < 2 or text != text.upper() or not _is_name(text):
                continue
            if normal_form(text) not in s.normal_mark_names:
                s.add_at_agent(
                    agent.id,
                    ("system_prompt",),
                    "unknown-mark-in-prompt",
                    f"the prompt of agent '{agent.id}' mentions [{text}], which is not a signal of this crew",
                    _nearest_mark(s, text),
                    Severity.WARNING,
                )


def _is_name(text: str) -> bool:
    return all(char.isalnum() or char in "_- " or unicodedata.category(char)[0] == "M" for char in text)


def _nearest_mark(s: CheckSubject, text: str) -> str:
    routed = dict.fromkeys(route.signal for _, route, _ in s.routes())
    place = s.source.fix("under routing.signals", "in on={…}")
    return nearest(f"[{text}]", [*routed, *s.definitions], f"route [{text}] {place}, or reword the prompt")
