"""Callables that can be tools: what they are called, their docstrings, and the names around them.

A callable is a function, a bound method, a partial, an object with `__call__`, or a function around one of these.
"""

import functools
import inspect
import re
import sys
from types import FrameType
from typing import Any

from interlock.errors import UsageError


def innermost_function(function: Any) -> Any:
    """The function behind partials, methods, decorators and callable objects."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif _is_callable_object(function):
            function = type(function).__call__
        else:
            return function


def names_given_by(function: Any) -> frozenset[str]:
    """The arguments that a partial gives by name; those it gives by place have left its signature."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def own_name(function: Any) -> str:
    """The name of the function; of an object, that of its class as functions are written."""
    while isinstance(function, functools.partial):
        function = function.func
    if _is_callable_object(function) and not hasattr(function, "__name__"):
        return _snake_case(type(function).__name__)
    return str(getattr(function, "__name__", ""))


def own_docstring(function: Any) -> str:
    """The docstring of the function; of an object, that of `__call__`, else that of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    class_ = type(function)
    if hasattr(function, "__wrapped__") and function.__doc__ is class_.__doc__:  # it has none of its own
        return own_docstring(function.__wrapped__)
    if hasattr(function, "__wrapped__") or not _is_callable_object(function):
        return inspect.getdoc(function) or ""
    is_generated = (class_.__doc__ or "").startswith(f"{class_.__name__}(")  # dataclasses write their own
    return inspect.cleandoc(class_.__call__.__doc__ or ("" if is_generated else class_.__doc__) or "")


def enclosing_names(function: Any) -> dict[str, Any]:
    """The local names of the functions around a function that is defined within others, while these are running.

    Annotations that are text may name them; the function itself keeps only what its body uses.
    """
    inner = innermost_function(function)
    around, is_local, _ = getattr(inner, "__qualname__", "").rpartition(".<locals>.")
    if not is_local:
        return {}
    names: dict[str, Any] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        is_around = around == frame.f_code.co_qualname or around.startswith(f"{frame.f_code.co_qualname}.")
        if is_around and frame.f_globals is getattr(inner, "__globals__", None):
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def require_tool(function: Any, name: str) -> None:
    """Refuses what cannot be a tool: a class, a function without a name, a generator."""
    if not callable(function):
        raise UsageError(
            f"{_repr_of(function)} cannot be called; a tool is a function, a method or an object with __call__"
        )
    if isinstance(function, type):
        raise UsageError(
            f"'{function.__name__}' is a class; a tool is a function, or an object with __call__: make one"
        )
    if not name.isidentifier():
        raise UsageError(_name_fault(function, name))
    inner = innermost_function(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise UsageError(
            f"tool '{name}' is a generator; a tool returns one value. Return a list, or show progress with "
            "ToolContext.progress"
        )


def _name_fault(function: Any, name: str) -> str:
    if name == "<lambda>":
        code = innermost_function(function).__code__
        where = f"{code.co_filename}:{code.co_firstlineno}"
        return f"a lambda has no name to call it by ({where}); write it as a function with a name and types"
    if name:
        return f"{name[:80]!r} is not a name for a tool; use letters, digits and _, not beginning with a digit"
    return f"{_repr_of(function)} has no name to call it by; give it one with tool(..., name=...)"


def _repr_of(value: Any) -> str:
    """The value in an error, whatever its own text is."""
    try:
        return repr(value)[:80]
    except Exception:  # objects of the host may fail in any way
        return f"an object of {type(value).__name__}"


def _is_callable_object(function: Any) -> bool:
    return not (inspect.isroutine(function) or isinstance(function, type | functools.partial))


def _snake_case(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return spaced.lower()
