"""Python functions as tools: what a model is told of them, and that nothing they do gets out of hand."""

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from interlock.adapters.tools.python_tools import PythonToolbox, ToolContext, tool
from interlock.adapters.tools.tool_results import NO_RESULT
from interlock.adapters.tools.tool_threads import ToolThreads
from interlock.errors import ToolFailed, UsageError
from interlock.ports import ToolCall


async def called(function: Callable[..., Any], arguments: str = "{}", key: str = "k") -> str:
    toolbox = PythonToolbox([function])
    return await toolbox.run(ToolCall(name=toolbox.names[0], arguments=arguments, key=key))


async def failure(function: Callable[..., Any], arguments: str = "{}") -> str:
    with pytest.raises(ToolFailed) as refused:
        await called(function, arguments)
    return str(refused.value)


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    (schema,) = PythonToolbox([function]).schemas([PythonToolbox([function]).names[0]])
    return schema.parameters


# What a model is told


@dataclass
class Place:
    city: str
    zip: int = 0


class Note(msgspec.Struct):
    text: str


class Option(TypedDict, total=False):
    loud: bool


def everything(  # type: ignore[no-untyped-def]
    name: str,
    count: Annotated[int, "how many"],
    size: Annotated[float, msgspec.Meta(ge=0)],
    kind: Literal["a", "b"],
    place: Place,
    notes: list[Note],
    option: Option,
    untyped,
    maybe: int | None = None,
    implied: str = None,  # type: ignore[assignment]  # noqa: RUF013
    *,
    tags: list[str] = ["x"],  # noqa: B006
    marker: Any = threading,
    context: ToolContext,
) -> Any:
    """Shows it all.

    Args:
        name: whose it is
    """
    return [
        name,
        count,
        size,
        kind,
        place.city,
        notes[0].text,
        option,
        untyped,
        maybe,
        implied,
        tags,
        marker is threading,
    ]


REQUIRED = {
    "name": "n",
    "count": 1,
    "size": 1.5,
    "kind": "a",
    "place": {"city": "Rome"},
    "notes": [{"text": "t"}],
    "option": {"loud": True},
    "untyped": "u",
}


def test_the_schema_comes_from_the_signature() -> None:
    told = parameters(everything)
    assert told["required"] == list(REQUIRED)
    assert told["additionalProperties"] is False
    assert "context" not in told["properties"]
    assert {name: body for name, body in told["properties"].items() if "$ref" not in body} == {
        "name": {"type": "string", "description": "whose it is"},
        "count": {"type": "integer", "description": "how many"},
        "size": {"type": "number", "minimum": 0},
        "kind": {"enum": ["a", "b"]},
        "notes": {"type": "array", "items": {"$ref": "#/$defs/Note"}},
        "untyped": {"type": "string"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "implied": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"type": "string"}, "default": ["x"]},
        "marker": {},
    }
    assert set(told["$defs"]) == {"Place", "Note", "Option"}
    assert PythonToolbox([everything]).schemas(["everything"])[0].description == "Shows it all."


async def test_arguments_arrive_as_their_types_and_what_is_left_out_is_the_functions_own() -> None:
    given = msgspec.json.encode(REQUIRED).decode()
    assert msgspec.json.decode(await called(everything, given)) == [
        *("n", 1, 1.5, "a", "Rome", "t", {"loud": True}, "u", None, None, ["x"], True)
    ]


@pytest.mark.parametrize(
    "arguments",
    ["{", "[]", "7", '{"x": "1"}', "{}", '{"x": 1, "y": 2}', '{"x": 1, "x": {}}', "[" * 100_000, '{"x": "\\ud800"}'],
)
async def test_arguments_that_do_not_fit_are_told(arguments: str) -> None:
    def add(x: int) -> int:
        return x + 1

    assert (await failure(add, arguments)).startswith("wrong arguments for 'add': ")


def star(*words: str) -> None: ...
def stars(**words: str) -> None: ...
def nameless(word: str, /) -> None: ...
def foreign(lock: threading.Thread) -> None: ...
def inner(locks: list[threading.Thread] = []) -> None: ...  # noqa: B006
def unresolved(word: "NoSuchType") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (star, r"tool 'star': parameter '\*words"),
        (stars, r"tool 'stars': parameter '\*\*words"),
        (nameless, "tool 'nameless': parameter 'word: str'"),
        (foreign, "tool 'foreign': .* parameter 'lock'"),
        (inner, "tool 'inner': .* parameter 'locks'"),
        (unresolved, "types of tool 'unresolved' cannot be read: NameError"),
        (lambda: None, "has no name to call it by"),
    ],
)
def test_a_function_that_cannot_be_described_is_refused_at_once(function: Callable[..., Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected) as refused:
        PythonToolbox([function])
    assert "\n" not in str(refused.value)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="two tools are called 'star_free'"):
        PythonToolbox([tool(star_free), star_free])


def star_free() -> str:
    return "fine"


# What comes of a call


async def test_decorated_functions_are_called_and_described_as_what_they_wrap() -> None:
    async def slow(x: int) -> int:
        return x * 2

    @wraps(slow)
    def wrapper(*args: Any, **named: Any) -> Any:
        return slow(*args, **named)

    assert await called(wrapper, '{"x": 4}') == "8"
    assert parameters(lru_cache(slow))["required"] == ["x"]


def ends() -> None:
    sys.exit(3)


def interrupts() -> None:
    raise KeyboardInterrupt


def groups() -> None:
    raise BaseExceptionGroup("several", [SystemExit(1), ValueError("v")])


def recurses() -> None:
    recurses()


def stops() -> None:
    raise StopIteration("s")


def leaves() -> None:
    raise GeneratorExit


def gives_up() -> None:
    raise asyncio.CancelledError


def times_out() -> None:
    raise TimeoutError("mine")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


def is_mute() -> None:
    raise Mute


RAISING: list[tuple[Callable[[], None], str]] = [
    (ends, "SystemExit: 3"),
    (interrupts, "KeyboardInterrupt: "),
    (groups, "BaseExceptionGroup: several"),
    (recurses, "RecursionError: "),
    (gives_up, "CancelledError: "),
    (times_out, "TimeoutError: mine"),
    (is_mute, "Mute"),
]


@pytest.mark.parametrize(("function", "expected"), [*RAISING, (stops, "StopIteration: s"), (leaves, "GeneratorExit: ")])
async def test_whatever_a_function_raises_is_told(function: Callable[[], None], expected: str) -> None:
    assert (await failure(function)).startswith(expected)


@pytest.mark.parametrize(("function", "expected"), RAISING)
async def test_whatever_an_async_function_raises_is_told(function: Callable[[], None], expected: str) -> None:
    async def raising() -> None:
        await asyncio.sleep(0)
        function()

    assert (await failure(raising)).startswith(expected)


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def test_an_async_function_that_cancels_its_own_task_has_failed() -> None:
    assert await failure(cancels_itself) == "CancelledError: the tool gave itself up"


HALF = "\ud800"  # half a character, for which UTF-8 has no form


def endless_list() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize("value", [object(), threading.Lock(), {1: object()}, "x".split, endless_list(), [HALF]])
async def test_a_value_that_cannot_be_told_is_a_failure_that_says_so(value: Any) -> None:
    def give() -> Any:
        return value

    assert (await failure(give)).startswith(f"tool 'give' returned a {type(value).__name__} that cannot be shown: ")


async def test_text_is_told_as_it_is_and_other_values_as_json() -> None:
    assert await called(star_free) == "fine"
    for value, text in ((None, NO_RESULT), (Place("Rome"), '{"city":"Rome","zip":0}'), ([1, 2.5], "[1,2.5]")):
        assert await called(lambda_named(value)) == text


def lambda_named(value: Any) -> Callable[[], Any]:
    def give() -> Any:
        return value

    return give


# Threads


async def test_calls_of_plain_functions_run_at_the_same_time_and_see_context_variables_and_their_keys() -> None:
    who, together = contextvars.ContextVar("who", default="nobody"), threading.Barrier(8, timeout=30)

    def meet(context: ToolContext) -> str:
        together.wait()
        return f"{who.get()} {context.key}"

    who.set("ann")
    toolbox = PythonToolbox([meet])
    assert await asyncio.gather(*(toolbox.run(ToolCall(name="meet", key=str(n))) for n in range(8))) == [
        f"ann {n}" for n in range(8)
    ]


async def test_no_more_threads_than_the_bound_and_calls_wait_in_order() -> None:
    running: list[int] = []
    most: list[int] = []
    order: list[int] = []
    lock = threading.Lock()

    def work(n: int) -> None:
        with lock:
            running.append(n)
            order.append(n)
            most.append(len(running))
        threading.Event().wait(0.001)
        with lock:
            running.remove(n)

    threads = ToolThreads(2)
    await asyncio.gather(*(threads.call(lambda n=n: work(n)) for n in range(20)))  # type: ignore[misc]
    assert max(most) == 2
    assert sorted(order) == list(range(20))
    assert all(abs(n - place) <= 1 for place, n in enumerate(order))


async def test_a_late_result_is_dropped_and_a_call_that_was_given_up_before_it_began_never_begins() -> None:
    let_go, began = threading.Event(), []

    def stuck() -> str:
        began.append("stuck")
        let_go.wait(30)
        return "late"

    threads = ToolThreads(1)
    first = asyncio.ensure_future(threads.call(stuck))
    second = asyncio.ensure_future(threads.call(lambda: began.append("never")))
    while not began:
        await asyncio.sleep(0.001)
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    third = asyncio.ensure_future(threads.call(lambda: "next"))
    let_go.set()
    assert str(await third) == "next"
    assert began == ["stuck"]


async def test_a_function_that_never_returns_does_not_keep_the_loop_from_closing() -> None:
    let_go, began = threading.Event(), threading.Event()

    def stuck() -> None:
        began.set()
        let_go.wait(60)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await PythonToolbox([stuck]).run(ToolCall(name="stuck", key="k"))
    began.wait(30)
    assert not let_go.is_set()
    let_go.set()


async def test_where_no_thread_can_be_started_the_call_fails_and_later_ones_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    toolbox = PythonToolbox([star_free])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(ToolFailed, match="no thread can be started for it: can't start new thread"):
            await toolbox.run(ToolCall(name="star_free", key="k"))
    assert await toolbox.run(ToolCall(name="star_free", key="k")) == "fine"


async def test_cancelling_reaches_an_async_function() -> None:
    seen = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await PythonToolbox([slow]).run(ToolCall(name="slow", key="k"))
    assert seen == ["cancelled"]
