"""Hooks: code of the host that sees what goes into a run and what comes out of it.

A hook has a `name` and any of these methods, plain or async. Each returns None, a replacement, `Refuse` or `Ask`:

    on_input(text)                 before a run starts, and before an answer is taken; a replacement is text
    before_model(request)          a replacement is a request with another system text, other messages or other tools
    after_model(request, reply)    a replacement is a `ModelReply`, or text
    before_tool(call)              a replacement is a call with other arguments, or the arguments
    after_tool(call, result)       a replacement is text
    on_output(result)              before a run ends with an output; a replacement is text, or a `RunOutput` with
                                   another output or value. A typed value is replaced by a valid one only
"""

from typing import Any, Protocol

import msgspec


class Refuse(msgspec.Struct, frozen=True):
    """Do not let it happen. A refused tool call is told to the model; anything else that is refused fails."""

    reason: str = ""


class Ask(msgspec.Struct, frozen=True):
    """Let a person decide, with yes or no. After the deadline the answer is no; 0 is no deadline."""

    question: str
    deadline_seconds: float = 0


class HookCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that is about to run, or has run. `arguments` are an object, or text if the model wrote no object.

    `key` is the same if the call is repeated. `user` is the user of the run.
    """

    name: str
    arguments: Any
    agent: str
    run: str
    key: str
    user: str = ""


class RunOutput(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, before it is recorded. `value` is its typed value as plain JSON, None if it has none."""

    run: str
    status: str
    reason: str
    agent: str
    output: str
    text: str
    value: Any = None


class Hook(Protocol):
    """Everything but the name may be missing. With `keeps_original = False` journals keep no reply that it replaced."""

    name: str
