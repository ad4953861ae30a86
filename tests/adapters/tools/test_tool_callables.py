"""What can be a tool: functions, methods, partials, objects; and what is refused, with a sentence."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from interlock import tool
from interlock.adapters.tools.python_tools import PythonToolbox, as_python_tool, schema_of_tool
from interlock.errors import UsageError
from interlock.ports import ToolCall


def add(x: int, y: int = 2) -> int:
    """Adds.

    Args:
        x: the first
        y: the second
    """
    return x + y


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0

    def count(self, by: int) -> int:
        """Counts on."""
        self.total += by
        return self.total

    @staticmethod
    def double(x: int) -> int:
        """Doubles."""
        return 2 * x

    @classmethod
    def name_of(cls, x: int) -> str:
        """Names."""
        return f"{cls.__name__} {x}"

    @staticmethod
    @tool(name="halve")
    def half(x: int) -> float:
        """Halves."""
        return x / 2


@dataclass
class HTTPStatusPage:
    path: str

    async def __call__(self, x: int) -> str:
        return f"{self.path}/{x}"


def logged(inner: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    return outer


@pytest.mark.parametrize(
    ("entry", "name", "description", "parameters", "told"),
    [
        (add, "add", "Adds.", ["x", "y"], "5"),
        (Counter().count, "count", "Counts on.", ["by"], "3"),
        (Counter.double, "double", "Doubles.", ["x"], "6"),
        (Counter().double, "double", "Doubles.", ["x"], "6"),
        (Counter.name_of, "name_of", "Names.", ["x"], "Counter 3"),
        (Counter.half, "halve", "Halves.", ["x"], "1.5"),
        (functools.partial(add, y=7), "add", "Adds.", ["x"], "10"),
        (functools.partial(functools.partial(add, 1)), "add", "Adds.", ["y"], "4"),
        (functools.partial(tool(add), y=7), "add", "Adds.", ["x"], "10"),
        (HTTPStatusPage("/a"), "http_status_page", "", ["x"], "/a/3"),
        (tool(HTTPStatusPage("/a"), name="status", description="Shows."), "status", "Shows.", ["x"], "/a/3"),
        (logged(add), "add", "Adds.", ["x", "y"], "5"),
        (logged(Counter().count), "count", "Counts on.", ["by"], "3"),
        (functools.lru_cache(add), "add", "Adds.", ["x", "y"], "5"),
        (tool(lambda x: f"got {x}", name="get", description="Gets."), "get", "Gets.", ["x"], "got 3"),
    ],
)  # fmt: skip
async def test_callables_are_tools(
    entry: Callable[..., Any], name: str, description: str, parameters: list[str], told: str
) -> None:
    toolbox = PythonToolbox([entry])
    (schema,) = toolbox.schemas([name])
    assert (schema.description, list(schema.parameters["properties"])) == (description, parameters)
    value = '"3"' if name == "get" else "3"
    assert await toolbox.run(ToolCall(name=name, arguments=f'{{"{parameters[0]}": {value}}}')) == told


def test_descriptions_of_bound_arguments_disappear_with_them() -> None:
    schema = schema_of_tool(as_python_tool(functools.partial(add, y=7))).parameters
    assert schema["properties"] == {"x": {"type": "integer", "description": "the first"}}
    assert schema["required"] == ["x"]


def test_a_builtin_with_a_signature_is_a_tool() -> None:
    assert list(schema_of_tool(as_python_tool(round)).parameters["properties"]) == ["number", "ndigits"]


def pages() -> Iterator[int]:
    yield 1


async def pages_later() -> AsyncIterator[int]:
    yield 1


class Mute:
    def __repr__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (lambda x: x, r"a lambda has no name to call it by \(.*test_tool_callables.py:\d+\); write it as a function"),
        (functools.partial(lambda x: x, 1), "a lambda has no name to call it by"),
        (pages, "tool 'pages' is a generator; a tool returns one value. Return a list, or show progress"),
        (pages_later, "tool 'pages_later' is a generator"),
        (functools.partial(pages), "tool 'pages' is a generator"),
        (Counter, "'Counter' is a class; a tool is a function, or an object with __call__: make one"),
        (7, "7 cannot be called; a tool is a function, a method or an object with __call__"),
        (Mute(), "an object of Mute cannot be called"),
        (tool(add, name="add-up"), "'add-up' is not a name for a tool; use letters, digits and _"),
        (max, "tool 'max' has no signature that can be read"),
        (print, r"tool 'print': parameter '\*args' takes values without a name"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_a_sentence(entry: Any, expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as refused:
        PythonToolbox([entry])
    assert "\n" not in str(refused.value)


def test_a_tool_below_staticmethod_is_told_to_go_above() -> None:
    with pytest.raises(UsageError, match="write @staticmethod above @tool at 'double', not below it"):
        tool(staticmethod(Counter.double))


def test_a_declared_tool_stays_what_it_was_for_python() -> None:
    declared = tool(add)
    assert (declared(1), declared(1, y=1), declared.__name__) == (3, 2, "add")
    assert tool(name="plus")(add).name == "plus"
    assert Counter.half.name == "halve"
