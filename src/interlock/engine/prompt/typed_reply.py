"""The form of a typed reply for clients that can hold a model to a JSON schema.

Rule 1: there is one form for all providers, the envelope: an object with `value`, and beside it `signal` if the agent
has marks, and `text` if the value is needed at the end of the run only. So a value of any type is inside an object,
which every provider requires, and the mark that steers is never inside the value.
Rule 2: an answer in the envelope is converted to the reply that a model without such means gives: the value, then the
mark on a line of its own. Everything behind the client sees that form only.
Rule 3: an answer in another form is left as it is; if it is the bare value, it counts, else the model is told.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.crew.outputs.asked import AskedOutput
from interlock.engine.prompt.contract import usable_marks
from interlock.engine.prompt.grammar import with_mark
from interlock.limits import OUTPUT_VALUE_DEPTH_MAX
from interlock.messages.reading import depth_of
from interlock.signals.reasoning_tags import hide_tags_in_json

Restore = Callable[[Any], Any]

_HARMLESS = str.maketrans("[]", "⟦⟧")

_NOTE = {
    "en": "Answer with a JSON object: {parts}.",
    "vi": "Hãy trả lời bằng một đối tượng JSON: {parts}.",
}
_PARTS = {
    "en": {
        "text": "`text` is what you say",
        "value": "`value` is your output",
        "value_or_null": "`value` is your output if this reply ends the run, else null",
        "signal": "`signal` is the mark",
        "signal_or_null": "`signal` is the mark, or null",
    },
    "vi": {
        "text": "`text` là lời của bạn",
        "value": "`value` là kết quả",
        "value_or_null": "`value` là kết quả nếu câu trả lời kết thúc phiên chạy, nếu không thì null",
        "signal": "`signal` là dấu",
        "signal_or_null": "`signal` là dấu, hoặc null",
    },
}


class _Envelope(msgspec.Struct, frozen=True):
    value: msgspec.Raw
    text: str = ""
    signal: str | None = None


class TypedReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply must be. `schema` is that of the value, as the crew has it; replies are checked against it."""

    schema: dict[str, Any]
    always: bool
    marks: tuple[str, ...] = ()
    needs_mark: bool = False
    language: str = "en"

    def envelope(self, schema: Any) -> dict[str, Any]:
        """The schema of the envelope around a value; `schema` is that of the value as this provider takes it."""
        value = schema if self.always else {"anyOf": [schema, {"type": "null"}]}
        signal: dict[str, Any] = {"type": "string", "enum": list(self.marks)}
        if not self.needs_mark:
            signal = {"anyOf": [signal, {"type": "null"}]}
        parts = {} if self.always else {"text": {"type": "string"}}
        parts |= {"value": value} | ({"signal": signal} if self.marks else {})
        return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}

    @property
    def note(self) -> str:
        """The envelope in words, for the instructions."""
        words = _PARTS[self.language]
        parts = [words["value"]] if self.always else [words["text"], words["value_or_null"]]
        parts += [words["signal" if self.needs_mark else "signal_or_null"]] if self.marks else []
        return _NOTE[self.language].format(parts="; ".join(parts))

    def reply_of(self, answer: str, restore: Restore | None = None) -> str:
        """The reply for an answer in the envelope; `restore` undoes what the provider's form added to the value."""
        if depth_of(answer) > OUTPUT_VALUE_DEPTH_MAX + 1:
            return answer
        try:
            said = msgspec.json.decode(answer, type=_Envelope)
            value = bytes(said.value).decode()
            if restore is not None and value != "null":
                value = _without_additions(value, restore)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return answer
        if said.signal is not None and said.signal not in self.marks:
            return answer
        has_value = value != "null" or self.always
        body = hide_tags_in_json(value) if has_value else said.text.rstrip().translate(_HARMLESS)
        return with_mark(body, said.signal) if said.signal else body


def _without_additions(text: str, restore: Restore) -> str:
    """The value without what the provider's form added; unchanged text if nothing was added."""
    value = msgspec.json.decode(text)
    plain = restore(value)
    return text if plain == value else msgspec.json.encode(plain).decode()


def reply_form_of(
    crew: CrewDefinition, agent: str, asked: AskedOutput | None, group: str, *, needs_mark: bool
) -> TypedReply | None:
    """The form of the agent's replies; None if it is asked for no value, or emits its signals by a tool."""
    if asked is None or crew.settings.signal_mode == "tool":
        return None
    marks = tuple(route.signal for route in usable_marks(crew, agent, group).steering)
    return TypedReply(
        schema=asked.schema,
        always=asked.always,
        marks=marks,
        needs_mark=bool(marks) and needs_mark and not group,
        language=crew.settings.language,
    )
