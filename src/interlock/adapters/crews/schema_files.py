"""Schemas of crew files, and schemas in files beside a crew.

The name of a file is replaced by its content, JSON or YAML, before a crew is parsed.

The places of the content are those in its own file, so a problem in a schema points there.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET

from interlock.adapters.value_types.schema_validator import fault_in_schema
from interlock.crew.definition import CrewDefinition
from interlock.crew.nodes import Mapping, Node, Path, Scalar, Sequence
from interlock.crew.problem import Problems
from interlock.crew.source import CrewSource, ProblemReporter

# Reads the file that a value names; gives something to parse in any case, and reports what is wrong.
ReadSchema = Callable[[Scalar], Node]

_EVERY = "*"

# Where schemas are in a crew file, and in an agent file.
_OF_CREW = (
    ("output",),
    ("agents", _EVERY, "output"),
    ("sub_crews", _EVERY, "output"),
    ("routing", "signals", _EVERY, _EVERY, "takes"),
)
_OF_AGENT = (("output",),)


def with_schemas_of_crew(root: Mapping, read: ReadSchema) -> Mapping:
    return _with_schemas(root, _OF_CREW, read)


def with_schemas_of_agent(root: Mapping, read: ReadSchema) -> Mapping:
    return _with_schemas(root, _OF_AGENT, read)


def _with_schemas(root: Mapping, paths: tuple[tuple[str, ...], ...], read: ReadSchema) -> Mapping:
    node: Node = root
    for path in paths:
        node = _replace_at(node, path, read)
    assert isinstance(node, Mapping), "a mapping stays one"
    return node


def _replace_at(node: Node, path: tuple[str, ...], read: ReadSchema) -> Node:
    """The node with the file names at this path replaced; the same node if there are none."""
    if not path:
        is_name = isinstance(node, Scalar) and isinstance(node.value, str) and bool(node.value.strip())
        return read(node) if isinstance(node, Scalar) and is_name else node
    name, rest = path[0], path[1:]
    if isinstance(node, Sequence) and name == _EVERY:
        items = tuple(_replace_at(item, rest, read) for item in node.items)
        return node if _are_same(items, node.items) else Sequence(items, node.place)
    if isinstance(node, Mapping):
        entries = tuple(
            (key, _replace_at(inner, rest, read) if name in (_EVERY, key.text) else inner)
            for key, inner in node.entries
        )
        inner = tuple(each for _, each in entries)
        return node if _are_same(inner, tuple(each for _, each in node.entries)) else Mapping(entries, node.place)
    return node


def _are_same(new: tuple[Node, ...], old: tuple[Node, ...]) -> bool:
    return all(one is other for one, other in zip(new, old, strict=True))


def report_unusable_schemas(crew: CrewDefinition, source: CrewSource, problems: Problems) -> None:
    """Reports schemas that the validator cannot use, such as a pattern that it does not know."""
    report = ProblemReporter(source, problems)
    fix = "write it in another way"
    for path, schema in _schemas_of_crew(crew, source):
        if fault := fault_in_schema(schema):
            report.add_at(path, "bad-schema", f"{path[-1]} cannot be checked: {fault}", fix)
    for agent in crew.agents:
        if agent.output is not UNSET and (fault := fault_in_schema(agent.output)):
            report.add_at_agent(agent.id, ("output",), "bad-schema", f"output cannot be checked: {fault}", fix)


def _schemas_of_crew(crew: CrewDefinition, source: CrewSource) -> Iterator[tuple[Path, dict[str, Any]]]:
    if crew.output is not UNSET:
        yield ("output",), crew.output
    for name, sub in crew.sub_crews.items():
        if sub.output is not UNSET:
            yield ("sub_crews", name, "output"), sub.output
    for agent, routes in crew.routes.items():
        for route, path in zip(routes, source.routes[agent], strict=True):
            if route.takes is not UNSET:
                yield (*path, "takes"), route.takes
