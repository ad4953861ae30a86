"""Agents, from their files or from their place in the crew file."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from interlock.crew.definition import (
    NO_MODEL_SETTINGS,
    AgentDefinition,
    CostLimits,
    ErrorLimits,
    ModelRef,
    ModelSettings,
)
from interlock.crew.keys import AGENT, MODEL_SETTINGS
from interlock.crew.nodes import Mapping, Path, Scalar, Sequence
from interlock.crew.problem import Problems, Severity
from interlock.crew.shapes import MISSING, Values
from interlock.crew.source import CrewSource, ProblemReporter


def parse_agents(source: CrewSource, report: ProblemReporter, provider: str) -> tuple[AgentDefinition, ...]:
    """Reads the agents, in file order; `provider` is the default for models without one."""
    listed = source.root.get("agents")
    items = listed.items if isinstance(listed, Sequence) else ()
    agents: dict[str, AgentDefinition] = {}
    for n, item in enumerate(items):
        agent = _agent_in_place(item, n, source, report, provider) if isinstance(item, Mapping) else None
        if isinstance(item, Scalar) and isinstance(item.value, str) and item.value.strip():
            agent = _agent_by_id(item.value, n, source, report, provider)
        if agent is None:
            continue
        if agent.id in agents:
            report.add_at(
                ("agents", n),
                "name-clash",
                f"agent '{agent.id}' is listed twice",
                "remove one of the two",
            )
            continue
        agents[agent.id] = agent
    in_place = {id for id in agents if source.agents.get(id, (None, ()))[0] is source.root}  # noqa: A001
    _report_surplus_files(set(agents), in_place, source, report)
    return tuple(agents.values())


def _agent_in_place(
    item: Mapping, n: int, source: CrewSource, report: ProblemReporter, provider: str
) -> AgentDefinition | None:
    path: Path = ("agents", n)
    # The crew's section has already read it and reported its problems; only the values are needed here.
    values = AGENT.read(item, path, Problems())
    if "id" not in values:
        if item.get("id") is None:
            report.add_at(path, "missing-key", "an inline agent needs 'id'", "add 'id:' (text)")
        return None
    source.agents.setdefault(values["id"], (source.root, path))
    return _agent(values["id"], values, report, provider)


def _agent_by_id(id: str, n: int, source: CrewSource, report: ProblemReporter, provider: str) -> AgentDefinition:  # noqa: A002
    files = [file for file in source.agent_files if _id_in(file.node, file.stem) == id]
    if not files:
        if not source.has_folder:
            report.add_at(("agents", n), "agent-file", f"agent '{id}' is named, but not given", "give the agent itself")
        elif not source.agents_lost:
            report.add_at(
                ("agents", n),
                "agent-file",
                f"agent '{id}' has no file agents/{id}.yaml",
                f"create agents/{id}.yaml, or define the agent inline",
            )
        source.agents.setdefault(id, (source.root, ("agents", n)))
        source.unclear.add(id)
        return AgentDefinition(id=id, name=id)
    for double in files[1:]:
        _report_agent_file(
            report, double.file, f"'{id}' is also the id of {files[0].file}", "keep one of the two files"
        )
    node = files[0].node
    if node is None:  # already reported
        source.unclear.add(id)
        return AgentDefinition(id=id, name=id)
    source.agents.setdefault(id, (node, ()))
    values = AGENT.read(node, (), report.problems)
    if values is MISSING:
        source.unclear.add(id)
        return AgentDefinition(id=id, name=id)
    return _agent(id, values, report, provider)


def _id_in(node: Any, stem: str) -> str:
    """The id in an agent file, or the file's name if there is none."""
    written = node.get("id") if isinstance(node, Mapping) else None
    return written.text if isinstance(written, Scalar) and written.value not in (None, "") else stem


def _report_surplus_files(listed: set[str], in_place: set[str], source: CrewSource, report: ProblemReporter) -> None:
    for file in source.agent_files:
        id = _id_in(file.node, file.stem)  # noqa: A001
        if id not in listed:
            _report_agent_file(
                report,
                file.file,
                f"agent '{id}' has a file but is not listed under agents",
                f"list '{id}' under agents in crew.yaml, or remove the file",
            )
        elif id in in_place:
            _report_agent_file(
                report,
                file.file,
                f"agent '{id}' has a file and is defined inline; the file is ignored",
                "keep one of the two",
            )


def _report_agent_file(report: ProblemReporter, file: str, message: str, fix: str) -> None:
    place = msgspec.structs.replace(report.source.root.place, file=file, line=1, column=1)
    report.problems.add("agent-file", message, place=place, path=("id",), fix=fix)


def _agent(id: str, values: Values, report: ProblemReporter, provider: str) -> AgentDefinition:  # noqa: A002
    flat = {key: values.pop(key) for key in ("model", "provider", "provider_url") if key in values}
    for name in ("primary", "backup"):
        if name in values:
            values[name] = _model(id, values[name], (name,), report, provider)
    if "model" in flat:
        if "primary" in values:  # the rule of the old program, for which files of version 1.0 were written
            severity, counts = (Severity.WARNING, "; primary is used") if provider else (Severity.ERROR, "")
            message = f"use either model or primary, not both{counts}"
            report.add_at_agent(id, ("model",), "bad-value", message, "remove model", severity)
        else:
            values["primary"] = _model(id, flat, (), report, provider)
    elif flat:
        key = next(iter(flat))
        report.add_at_agent(id, (key,), "missing-key", f"{key} without a model does nothing", "add 'model:'")
    for name, alias, kind in (
        ("cost_limits", "block_on_cost_exceed", CostLimits),
        ("error_limits", "block_on_error_exceed", ErrorLimits),
    ):
        if name in values:
            values[name] = kind(**_with_enforce_alias(id, values[name], alias, name, report))
    settings = _model_settings(id, values, report)
    if settings != NO_MODEL_SETTINGS:
        values["model_settings"] = settings
    if not report.source.has_value(id, "signals"):
        values.pop("signals", None)  # an empty list does not restrict
    return AgentDefinition(**{"name": id, **values, "id": id})


def _model_settings(id: str, values: Values, report: ProblemReporter) -> ModelSettings:  # noqa: A002
    """Takes the settings of the agent's models out of its values."""
    found = {key.name: values.pop(key.name) for key in MODEL_SETTINGS if key.name in values}
    for n, text in enumerate(found.get("stop", ())):
        if not text:
            report.add_at_agent(id, ("stop", n), "bad-value", "stop must not have an empty text", "remove it")
    return ModelSettings(**found)


def _with_enforce_alias(id: str, limits: Values, alias: str, name: str, report: ProblemReporter) -> Values:  # noqa: A002
    if "enforce" in limits:
        enforce = limits.pop("enforce")
        if limits.setdefault(alias, enforce) != enforce:
            report.add_at_agent(
                id,
                (name, "enforce"),
                "bad-value",
                f"enforce and {alias} contradict each other",
                "keep one of the two",
            )
    return limits


def _model(
    id: str,  # noqa: A002
    values: dict[str, str],
    path: Path,
    report: ProblemReporter,
    default: str,
) -> ModelRef | None:
    return model_ref(values, default, partial(report.add_at_agent, id, (*path, "model")))


def model_ref(values: dict[str, str], default: str, refuse: Callable[[str, str, str], None]) -> ModelRef | None:
    """The model that a section names; `default` is the provider if none is named."""
    model, provider = values.get("model"), values.get("provider", "")
    if model is None:  # reported as a missing key
        return None
    if not provider and default and ":" not in model:
        provider, model = default, model.strip()
    if not provider:
        provider, colon, rest = model.partition(":")
        if not colon or not provider.strip() or not rest.strip():
            refuse(
                "unknown-provider",
                f"model '{model}' has no provider",
                f"write '{provider.strip()}:NAME'"
                if colon and provider.strip()
                else f"write 'openai:{rest.strip() or model.strip(':') or 'NAME'}' or another provider",
            )
            provider = ""
        else:
            provider, model = provider.strip(), rest.strip()
    return ModelRef(provider=provider, model=model, provider_url=values.get("provider_url", ""))
