"""Functions that decide which calls of a tool a person must approve: `@tool(needs_approval=function)`.

Rule 1: a function gets the arguments as the model wrote them, a dictionary, and, if it takes two, the `ToolContext`.
Rule 2: a plain function runs in a thread, an `async` one in the loop.
Rule 3: nothing that it raises reaches the loop, not even an exit or an interrupt; the caller asks a person then.
"""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.adapters.tools.tool_threads import ToolThreads
from interlock.errors import ToolFailed, UsageError

ApprovalFunction = Callable[..., Any]


def require_approval_setting(needs_approval: object, tool: str) -> None:
    """Refuses a value of `needs_approval` that is neither true, false nor a function of one or two arguments."""
    if isinstance(needs_approval, bool):
        return
    if not callable(needs_approval):
        raise UsageError(
            f"needs_approval of tool '{tool}' must be True, False or a function, not {type(needs_approval).__name__}"
        )
    if not any(_can_take(needs_approval, count) for count in (1, 2)):
        raise UsageError(f"needs_approval of tool '{tool}' must take the arguments, or the arguments and the context")


async def call_approval_function(
    function: ApprovalFunction,
    arguments: str,
    context: Any,
    threads: ToolThreads,
    loop: asyncio.AbstractEventLoop | None = None,
) -> Any:
    """The result of the function; an `async` one works in `loop`, which another thread runs, or in this one."""
    values = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    given = (values, context) if _can_take(function, 2) else (values,)
    if inspect.iscoroutinefunction(function):
        return await _await_in_loop(function(*given), loop)

    def call_in_thread() -> Any:
        try:
            return function(*given)
        except BaseException as error:  # in this thread an exit or an interrupt is an ordinary failure
            raise _as_failure(error) from error

    value = await threads.call(call_in_thread)
    return await _await_in_loop(value, loop) if inspect.isawaitable(value) else value


def _can_take(function: ApprovalFunction, count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a built-in function that does not tell its parameters
        return count == 1
    return True


async def _await_in_loop(work: Any, loop: asyncio.AbstractEventLoop | None) -> Any:
    if loop is None or loop is asyncio.get_running_loop() or loop.is_closed():
        return await _await_guarded(work)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_await_guarded(work), loop))


async def _await_guarded(work: Any) -> Any:
    try:
        return await work
    except (GeneratorExit, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise _as_failure(error) from error


def _as_failure(error: BaseException) -> ToolFailed:
    try:
        return ToolFailed(f"{type(error).__name__}: {error}")
    except Exception:  # an error without a usable text still has a name
        return ToolFailed(type(error).__name__)
