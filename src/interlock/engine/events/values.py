"""Values that events carry: usage, tool requests, history, context, needs."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from interlock.messages.frames import Frame


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The cost of model calls. Money is counted in whole millionths of a dollar, because decisions depend on it."""

    calls: int = 0
    input_tokens: int = 0  # of the whole prompt, the cached part included
    cache_read_tokens: int = 0  # the part of the prompt that the provider read from its cache
    cache_write_tokens: int = 0  # the part of the prompt that it wrote to its cache
    output_tokens: int = 0  # of the whole reply, reasoning included
    reasoning_tokens: int = 0  # the part of the reply that was reasoning
    cost_micros: int = 0
    unpriced_calls: int = 0  # calls whose price is unknown; while there are any, the cost is unknown

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
        )

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class ReasoningBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a model reasoned before it replied, as its provider gave it.

    It is sent back unaltered within the tool loop of its turn, only to the provider that gave it, and never shown to
    another agent. `data` is opaque: a signature, encrypted content, or a whole item in JSON.
    """

    provider: str = ""  # as in `ModelRef.server`; empty if it stood in the text, between tags, and is not sent back
    kind: str = ""  # of the provider's wire form, such as the name of a field
    text: str = ""
    data: str = ""


def redact_reasoning(blocks: tuple[ReasoningBlock, ...], redact: Callable[[str], str]) -> tuple[ReasoningBlock, ...]:
    """The blocks without secrets. One with opaque data is left out if it has one: changed, its provider refuses it."""
    kept = []
    for block in blocks:
        text = redact(block.text)
        if text == block.text and redact(block.data) == block.data:
            kept.append(block)
        elif not block.data:
            kept.append(msgspec.structs.replace(block, text=text))
    return tuple(kept)


class OutputVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of validating the value of a reply; without a fault it is valid.

    `at_end` is the fault of a value that is valid for its agent, but must not end the run.
    """

    fault: str = ""
    at_end: str = ""


# One shared object, so that the journal omits it as the default.
NO_USAGE = Usage()


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that a model asked for; `arguments` is JSON as the model wrote it."""

    id: str
    name: str
    arguments: str


class HookOutcome(StrEnum):
    """What a hook did. A hook that let the value pass leaves no trace."""

    REPLACED = "replaced"
    REFUSED = "refused"
    ASKED = "asked"
    FAILED = "failed"


class HookDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The decision of one hook of the host. `reason` is its own, or why it failed."""

    hook: str
    outcome: HookOutcome
    reason: str = ""


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the hooks of the host decided at one point, in their order; the last decision is the one that counts.

    `replacement` is the value to use instead: text, or JSON for a request or for arguments. With a `question` a person
    decides; `deadline_ms` later the answer is no.
    """

    point: str
    decisions: tuple[HookDecision, ...] = ()
    replacement: str | None = None
    question: str = ""
    deadline_ms: int = 0

    @property
    def stopping_decision(self) -> HookDecision | None:
        """The decision that refused, or the hook that failed; no hook was asked after it."""
        last = self.decisions[-1] if self.decisions else None
        return last if last and last.outcome in (HookOutcome.REFUSED, HookOutcome.FAILED) else None

    @property
    def asking_decision(self) -> HookDecision | None:
        """The first hook that asks a person."""
        return next((each for each in self.decisions if each.outcome is HookOutcome.ASKED), None)


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of history: its author, its turn and its run.

    `frames` mark the parts of a composed text that others have said.
    """

    role: str
    author: str
    text: str
    run: str = ""
    turn: int
    frames: tuple[Frame, ...] | msgspec.UnsetType = msgspec.UNSET


class CrewContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a crew is given besides its input, by the calling crew or by the host.

    Without an original input, the run's own input counts as the original.
    """

    original_input: str = ""
    previous_results: dict[str, str] = {}
    shared_memory: dict[str, Any] = {}
    parent_history: tuple[Entry, ...] = ()


NO_CONTEXT = CrewContext()


class HostNeeds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run needs from its host besides its crew; a process that lacks a part of it does not drive the run.

    `models`: a script or a program replied instead of the models that the crew names; if only for some providers,
    `providers` has their names. `functions` are the tools that were given as Python functions, `approvals` those
    of them whose code asks for approval,
    `hooks` the names of the host's hooks. `outputs` are the outputs that a type of Python checks beyond their schemas:
    of a crew by its name, of an agent by the names of both.
    """

    models: bool = False
    providers: tuple[str, ...] = ()
    deps: bool = False
    functions: tuple[str, ...] = ()
    approvals: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def is_private(self) -> bool:
        """Whether only the process that began the run, or one that is given the same by a caller, has what it needs."""
        return self.models or self.deps


# One shared object, so that the journal omits it as the default.
NO_NEEDS = HostNeeds()


class ApprovalTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The terms of a question about a tool call. `because` says why it is asked.

    `pattern` are the calls for which `for this run` and `always` hold if the person names no others; empty if the
    person must name them. Without an answer within `deadline_ms`, if that is not 0, the call is denied.
    """

    because: str = ""
    pattern: str = ""
    deadline_ms: int = 0
