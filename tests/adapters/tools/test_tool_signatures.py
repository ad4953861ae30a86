"""Signatures as models see them: types, defaults, descriptions, and that schema and decoder agree."""

from __future__ import annotations

import datetime as dt
import enum
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union
from uuid import UUID

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PositiveInt

from interlock import ToolContext, tool
from interlock.adapters.tools.python_tools import PythonTool, PythonToolbox, as_python_tool, schema_of_tool
from interlock.errors import UsageError, WrongArguments
from interlock.ports import ToolCall

if TYPE_CHECKING:
    from threading import Thread


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Cat:
    lives: int
    names: list[str] = field(default_factory=list)


@dataclass
class Dog:
    barks: bool


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Options(TypedDict, total=False):
    loud: bool


class Note(msgspec.Struct):
    text: str
    day: dt.date | None = None


class Account(BaseModel):
    owner: str
    balance: Decimal = Decimal(0)


def tool_taking(hint: Any, default: Any = ...) -> PythonTool:
    """A tool with one argument of the type, which it gives back as its repr."""

    async def take(it: Any) -> str:
        return repr(it)

    take.__annotations__ = {"it": hint}
    if default is not ...:
        take.__defaults__ = (default,)
    return as_python_tool(take)


async def take(hint: Any, value: Any) -> str:
    given = json.dumps({"it": value})
    return await PythonToolbox([tool_taking(hint)]).run(ToolCall(name="take", arguments=given))


def schema_taking(hint: Any, default: Any = ...) -> dict[str, Any]:
    schema = schema_of_tool(tool_taking(hint, default)).parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Cat | Dog, {"barks": True}, Dog(barks=True)),
        (list[Cat | Dog], [{"lives": 9}, {"barks": False}], [Cat(9), Dog(barks=False)]),
        (dt.date | str, "2026-01-02", dt.date(2026, 1, 2)),
        (dt.date | str, "soon", "soon"),
        (Union[Colour, str], "green", "green"),  # noqa: UP007
        (Colour | str, "red", Colour.RED),
        (Optional[Cat], None, None),  # noqa: UP045
        (dict[str, list[Note]], {"a": [{"text": "t"}]}, {"a": [Note("t")]}),
        (dict[int, str], {"1": "one"}, {1: "one"}),
        (Sequence[int], [1], [1]),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Point, [1, 2.5], Point(1, 2.5)),
        (Options, {"loud": True}, {"loud": True}),
        (Colour, "red", Colour.RED),
        (Size, 2, Size.LARGE),
        (Decimal, "0.10", Decimal("0.10")),
        (Decimal, 7, Decimal(7)),
        (dt.datetime, "2026-01-02T03:04:05Z", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)),
        (dt.time, "03:04:05", dt.time(3, 4, 5)),
        (dt.timedelta, "PT90S", dt.timedelta(seconds=90)),
        (Path, "a/b", Path("a/b")),
        (list[Path] | None, ["a"], [Path("a")]),
        (Path | int, 3, 3),
        (set[int], [1, 1], {1}),
        (Account, {"owner": "ann", "balance": "1.50"}, Account(owner="ann", balance=Decimal("1.50"))),
        (Account | str, "none", "none"),
        (dict[str, Account], {"a": {"owner": "ann"}}, {"a": Account(owner="ann")}),
        (PositiveInt, 3, 3),
        (Annotated[int, Field(ge=1)] | None, None, None),
    ],
)
async def test_arguments_become_values_of_their_types(hint: Any, value: Any, expected: Any) -> None:
    assert await take(hint, value) == repr(expected)
    jsonschema.validate({"it": value}, schema_taking(hint), jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Cat | Dog, {"meows": 1}, "Object missing required field `lives` or Object missing required field `barks`"),
        (PositiveInt, 0, "Input should be greater than 0"),
        (Annotated[str, Field(max_length=2)], "abc", "String should have at most 2 characters"),
        (Annotated[int, msgspec.Meta(ge=3)], 2, "Expected `int` >= 3"),
        (Path, 3, "Expected `str`, got `int`"),
        (Colour, "green", "Invalid enum value 'green'"),
        (Account, {}, "owner: Field required"),
    ],
)
async def test_wrong_values_are_refused_with_the_name_of_the_argument(hint: Any, value: Any, expected: str) -> None:
    with pytest.raises(WrongArguments) as refused:
        await take(hint, value)
    assert str(refused.value) == f"wrong arguments for 'take': {expected} - at `$.it`"


# Defaults


def test_defaults_are_shown_where_json_has_a_form_for_them() -> None:
    shown = [
        (dt.date, dt.date(2026, 1, 2), "2026-01-02"),
        (Decimal, Decimal("1.5"), "1.5"),
        (Colour, Colour.RED, "red"),
        (Cat, Cat(9), {"lives": 9, "names": []}),
        (str, None, None),
    ]
    for hint, default, expected in shown:
        schema = schema_taking(hint, default)
        assert schema["properties"]["it"]["default"] == expected
        assert schema["required"] == []
    assert "default" not in schema_taking(Any, object())["properties"]["it"]


async def test_the_default_of_a_field_is_the_argument_and_that_of_a_factory_is_new_each_time() -> None:
    def collect(most: int = Field(default=2, ge=1), into: list[str] = Field(default_factory=list)) -> list[str]:  # noqa: B008
        into.append("x" * most)
        return into

    toolbox = PythonToolbox([collect])
    for _ in range(2):
        assert await toolbox.run(ToolCall(name="collect")) == '["xx"]'


def test_a_field_without_a_default_is_required() -> None:
    def pick(one: int = Field(description="which one")) -> int:
        return one

    schema = schema_of_tool(as_python_tool(pick)).parameters
    assert (schema["required"], schema["properties"]["one"]["description"]) == (["one"], "which one")


# Descriptions


class Documented:
    documentation = "as PEP 727 has it"


def test_what_describes_an_argument_annotations_first() -> None:
    def describe(
        a: Annotated[int, "annotated"],
        b: Annotated[int, msgspec.Meta(description="meta")],
        c: Annotated[int, Field(description="field")],
        d: Annotated[int, Documented()],
        e: int,
        f: Annotated[int | None, "optional"] = None,
        g: Annotated[int, "inside"] | None = None,
    ) -> None:
        """Describes.

        Args:
            a: docstring
            b: docstring
            c: docstring
            d: docstring
            e: docstring
            f: docstring
            g: docstring
            unknown: nothing
        """

    properties = schema_of_tool(as_python_tool(describe)).parameters["properties"]
    texts = {
        name: body.get("description", body.get("anyOf", [{}])[0].get("description"))
        for name, body in properties.items()
    }
    assert list(texts.values()) == [
        *("annotated", "meta", "field", "as PEP 727 has it", "docstring", "optional", "inside")
    ]


def test_two_types_of_one_name_keep_their_own_definitions() -> None:
    ours, theirs = Account, type("Account", (BaseModel,), {"__annotations__": {"number": int}, "__module__": __name__})

    def move(source: Any, target: Any, cat: Cat) -> None: ...

    move.__annotations__ = {"source": list[ours], "target": list[theirs], "cat": Cat}
    schema = schema_of_tool(as_python_tool(move)).parameters
    given = {"source": [{"owner": "a"}], "target": [{"number": 1}], "cat": {"lives": 1}}
    jsonschema.validate(given, schema, jsonschema.Draft202012Validator)
    assert sorted(schema["$defs"]) == ["Account", "Account_2", "Cat"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**given, "target": [{"owner": "a"}]}, schema, jsonschema.Draft202012Validator)


# Annotations that are text, and types that are defined within a function


async def test_types_of_the_function_around_a_tool_are_found_while_it_runs() -> None:
    @dataclass
    class Local:
        size: int

    def measure(thing: Local, context: ToolContext | None) -> int:
        assert context is not None
        return thing.size

    @tool(name="measure_too")
    def another(thing: Local | None = None) -> int:
        return thing.size if thing else 0

    toolbox = PythonToolbox([measure, another])
    for name in toolbox.names:
        assert await toolbox.run(ToolCall(name=name, arguments='{"thing": {"size": 3}}')) == "3"


def declared_elsewhere() -> PythonTool:
    class Local(TypedDict):
        size: int

    @tool
    def measure(thing: Local) -> int:
        return thing["size"]

    return measure


async def test_a_declared_tool_remembers_the_types_around_it() -> None:
    toolbox = PythonToolbox([declared_elsewhere()])
    assert await toolbox.run(ToolCall(name="measure", arguments='{"thing": {"size": 3}}')) == "3"


def test_a_result_type_that_cannot_be_read_does_not_matter() -> None:
    def look() -> Thread: ...  # type: ignore[empty-body]

    assert schema_of_tool(as_python_tool(look)).parameters["properties"] == {}


def test_a_type_that_cannot_be_read_is_an_error_with_tool_and_parameter() -> None:
    def look(at: Thread) -> None: ...

    with pytest.raises(UsageError) as refused:
        schema_of_tool(as_python_tool(look))
    assert str(refused.value) == (
        "the types of tool 'look' cannot be read: NameError: name 'Thread' is not defined (parameter 'at'); define or "
        "import what it names at the top of its module"
    )


def plain(context: ToolContext) -> str:
    return context.key


def optional(context: ToolContext | None = None) -> str:
    return context.key if context else ""


def generic(x: int, context: ToolContext[dict[str, int]]) -> str:
    return context.key


def annotated(context: Annotated[ToolContext, "given"], x: int = 1) -> str:
    return context.key


def keyword(*, context: ToolContext | None, x: int = 1) -> str:
    return context.key if context else ""


@pytest.mark.parametrize("function", [plain, optional, generic, annotated, keyword])
async def test_the_context_is_found_wherever_it_is(function: Callable[..., Any]) -> None:
    toolbox = PythonToolbox([function])
    assert "context" not in toolbox.schemas(toolbox.names)[0].parameters["properties"]
    given = '{"x": 1}' if function is generic else ""
    assert await toolbox.run(ToolCall(name=toolbox.names[0], arguments=given, key="k")) == "k"


# Schema and decoder agree


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5),
    int: st.integers(-(2**53), 2**53),
    float: st.floats(allow_nan=False, allow_infinity=False, width=32),
    bool: st.booleans(),
    Colour: st.sampled_from(Colour),
    Size: st.sampled_from(Size),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-99, max_value=99),
    dt.date: st.dates(),
    dt.datetime: st.datetimes(timezones=st.just(dt.UTC)),
    dt.time: st.times(),
    dt.timedelta: st.timedeltas(min_value=dt.timedelta(0), max_value=dt.timedelta(days=9)),
    UUID: st.uuids(),
    Path: st.sampled_from([Path("a"), Path("b/c")]),
    Literal["a", "b", 3]: st.sampled_from(["a", "b", 3]),
    Cat: st.builds(Cat, lives=st.integers(0, 9)),
    Dog: st.builds(Dog, barks=st.booleans()),
    Point: st.builds(Point, x=st.integers(0, 9), y=st.floats(0, 9)),
    Options: st.fixed_dictionaries({}, optional={"loud": st.booleans()}),
    set[int]: st.sets(st.integers(0, 9)),
    Note: st.builds(Note, text=st.text(max_size=3), day=st.none() | st.dates()),
}


class Typed(NamedTuple):
    hint: Any
    values: st.SearchStrategy[Any]


def grown(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        inner.map(lambda each: Typed(GenericAlias(list, each.hint), st.lists(each.values, max_size=3))),
        inner.map(lambda each: Typed(GenericAlias(dict, (str, each.hint)), named(each.values))),
        inner.map(lambda each: Typed(each.hint | None, st.none() | each.values)),
        inner.map(lambda each: Typed(Annotated[each.hint, "described"], each.values)),
        pair.map(lambda two: Typed(two[0].hint | two[1].hint, two[0].values | two[1].values)),
        pair.map(
            lambda two: Typed(GenericAlias(tuple, (two[0].hint, two[1].hint)), st.tuples(*(e.values for e in two)))
        ),
    )


def values_of(types: Sequence[Typed]) -> list[st.SearchStrategy[Any]]:
    return [each.values for each in types]


def named(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.text(max_size=3), values, max_size=2)


TYPES = st.recursive(st.sampled_from([Typed(*each) for each in SCALARS.items()]), grown, max_leaves=4)
# Every type is tried with each of these, alone and within lists and objects.
PLAIN: list[Any] = [None, True, 0, 1.5, -7, "", "a", "3", "red", "2026-01-02", "PT1S", [], [0, 0], {}, {"lives": 1}]
PROBES = [*PLAIN, *([each] for each in PLAIN), *({"k": each} for each in PLAIN), *([each, each] for each in PLAIN)]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
async def test_the_schema_validates_what_the_decoder_accepts(data: st.DataObject) -> None:
    typed = data.draw(TYPES)
    toolbox = PythonToolbox([tool_taking(typed.hint)])
    validator = jsonschema.Draft202012Validator(schema_taking(typed.hint))
    right = msgspec.json.encode({"it": data.draw(typed.values)}, enc_hook=str).decode()
    await toolbox.run(ToolCall(name="take", arguments=right))
    validator.validate(json.loads(right))
    for probe in PROBES:
        doubtful = {"it": probe}
        try:
            await toolbox.run(ToolCall(name="take", arguments=json.dumps(doubtful)))
        except WrongArguments as refused:
            assert str(refused).startswith("wrong arguments for 'take': ")
            assert "`$.it" in str(refused)
        else:
            validator.validate(doubtful)


def test_pydantic_is_loaded_only_by_a_tool_that_uses_it() -> None:
    program = (
        "import sys\nfrom dataclasses import dataclass\nfrom interlock import ToolContext, tool\n"
        "from interlock.adapters.tools.python_tools import PythonToolbox\n"
        "@dataclass\nclass A:\n    x: int\n"
        "@tool\ndef f(a: A | str, context: ToolContext) -> A: ...\n"
        "PythonToolbox([f])\nprint('pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"
