"""Models: one request, a stream of deltas, one reply."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from interlock.crew.definition import NO_MODEL_SETTINGS, ModelSettings
from interlock.engine.events import NO_USAGE, ReasoningBlock, ToolRequest, Usage
from interlock.engine.prompt.grammar import ReplyEnding
from interlock.engine.prompt.typed_reply import TypedReply
from interlock.engine.state import TurnMessage
from interlock.ports.tools import ToolSchema

# The same type as in the engine: copying every message for every call would make a turn cost its length.
PromptMessage = TurnMessage


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call, the agent's `number`th of the run. Key and number stay the same when the call is repeated.

    `ending` says how the reply must end: a client that can constrain decoding does so (by `ending.grammar`, or by
    `ending.schema` and then `ending.reply_of`), and says `constrained` in its reply. `ending.marks` are the marks.
    `typed` is set if the reply must be a JSON value: a client that can hold the model to a schema does so (by
    `typed.envelope`, then `typed.reply_of`); the instructions ask for it in any case.
    `purpose` is empty for the agent's own turn, else `select` (children for a task) or `check` (a report);
    it is the `purpose_number`th of these.
    """

    key: str
    agent: str
    number: int
    system: str
    messages: Sequence[PromptMessage]
    tools: tuple[ToolSchema, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    settings: ModelSettings = NO_MODEL_SETTINGS
    ending: ReplyEnding | None = None
    typed: TypedReply | None = None
    purpose: str = ""
    purpose_number: int = 0
    path: tuple[str, ...] = ()  # of a sub-crew: the names from the outermost crew down; `team#2` is a second call


class Delta(msgspec.Struct, frozen=True):
    """A piece of a reply, as it arrives."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """A piece of reasoning, as it arrives; it is no part of the reply's text."""

    text: str


class ModelReply(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    text: str
    usage: Usage = NO_USAGE
    tool_calls: tuple[ToolRequest, ...] = ()
    constrained: bool = False  # decoding was constrained to the request's ending
    uncounted: bool = False  # the provider sent no token counts: they are estimated
    reasoning: tuple[ReasoningBlock, ...] = ()


class Model(Protocol):
    def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        """Yields the pieces, then the whole reply; raises `ModelRefused` or `ModelUnavailable`."""
        ...
