"""The ending of a constrained reply: text, then exactly one legal mark, alone on the last line.

Rule 1: a reply under the grammar steers by that mark alone: fences are closed, and no other mark counts.
Rule 2: a line of text does not begin with a bracket, so that a model that starts its mark can only finish it.
Rule 3: the grammar uses the part of GBNF that llama.cpp and vLLM (xgrammar) share; names are literal.
Rule 4: a small model under a grammar may never stop by itself, so there is also a grammar of a few sentences, after
which only a mark can follow.
Rule 5: other servers get a JSON schema; the answer is converted to the same text and mark.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.prompt.contract import usable_marks
from interlock.errors import ModelUnavailable
from interlock.signals.matching import marks

# The longest sentence of a brief reply, its stop included.
SENTENCE_CHARS_MAX = 160

_STOPS = ".?!。？！"
_NOT_IN_SENTENCES = rf"\n\r`~[\]{_STOPS}"
_FENCES = re.compile(r"`{3,}|~{3,}")
_HARMLESS = str.maketrans("[]", "⟦⟧")


class ConstrainedAnswer(msgspec.Struct, frozen=True):
    """The answer of a model under the JSON schema."""

    text: str
    signal: str


class ReplyEnding(msgspec.Struct, frozen=True, kw_only=True):
    """The legal ending of a reply. A client that can constrain decoding uses `grammar` or `schema`, and reports it.

    `grammar` is for llama.cpp (`grammar`) and vLLM (`guided_grammar`, `structured_outputs.grammar`); `schema` is for
    servers that take a JSON schema, whose answer goes through `reply_of`; parts of such an answer are not parts of the
    reply. `brief` is the grammar for models that do not stop by themselves.
    """

    marks: tuple[str, ...]
    grammar: str
    schema: dict[str, Any]
    last_line: bool = True  # only marks on the last line count, so earlier lines may mention others

    def brief(self, sentences: int = 2) -> str:
        """A grammar of at most so many sentences and then a mark: at most 160 characters each, no code, no brackets."""
        rules = {
            "root": rf'sentence next{{0,{sentences - 1}}} "\n" mark',
            "next": '" " sentence',
            "sentence": rf"[^ \t{_NOT_IN_SENTENCES}] [^{_NOT_IN_SENTENCES}]{{0,{SENTENCE_CHARS_MAX - 2}}} [{_STOPS}]",
            "mark": _any_of(self.marks),
        }
        return _grammar_text(rules)

    def reply_of(self, answer: str) -> str:
        """The reply for an answer under the schema; raises `ModelUnavailable` if the answer does not fit."""
        try:
            said = msgspec.json.decode(answer, type=ConstrainedAnswer)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise ModelUnavailable(f"the reply is not the JSON it was constrained to: {error}") from error
        if said.signal not in self.marks:
            raise ModelUnavailable(f"the reply ends in '{said.signal[:60]}', not in one of {', '.join(self.marks)}")
        text = said.text.rstrip() if self.last_line else said.text.rstrip().translate(_HARMLESS)
        return with_mark(text, said.signal)


def ending_of(crew: CrewDefinition, agent: str, group: str = "") -> ReplyEnding | None:
    """The ending of the agent's replies; None if the crew does not constrain them or the agent has no steering mark.

    Marks of members steer only in groups without next_agent.
    """
    names = tuple(route.signal for route in usable_marks(crew, agent, group).steering)
    if crew.settings.signal_mode != "constrained" or not names:
        return None
    return ending_in(names, last_line=crew.settings.signal_position == "last_line")


def ending_in(names: Sequence[str], *, last_line: bool = True) -> ReplyEnding:
    return ReplyEnding(
        marks=tuple(names), grammar=_grammar(names, last_line), schema=_schema(names), last_line=last_line
    )


def _grammar(names: Sequence[str], last_line: bool) -> str:
    """The grammar. Lines hold no three backticks or tildes, so that only whole code blocks are fences."""
    brackets = "" if last_line else r"[\]"
    rules = {
        "root": "start more* mark",
        "start": r"[^ \t\n\r`~[\]] line | sign plain line | block",
        "more": r'[^\n\r`~[\]] line | sign (plain line | "\n") | block | "\n"',
        "line": r'plain* (sign plain+)* sign? "\n"',
        "plain": rf"[^\n\r`~{brackets}]",
        "sign": '"`" "`"? | "~" "~"?',
        "block": r'"```" [^`\n\r]* "\n" ([^`\n\r]* "\n")* "```\n"',
        "mark": _any_of(names),
    }
    return _grammar_text(rules)


def _grammar_text(rules: dict[str, str]) -> str:
    return "".join(f"{name} ::= {body}\n" for name, body in rules.items())


def _any_of(names: Sequence[str]) -> str:
    return " | ".join(map(_literal, names))


def _literal(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _schema(names: Sequence[str]) -> dict[str, Any]:
    """The schema; text comes first, so that the model thinks before it chooses."""
    return {
        "type": "object",
        "properties": {"text": {"type": "string"}, "signal": {"type": "string", "enum": list(names)}},
        "required": ["text", "signal"],
        "additionalProperties": False,
    }


def with_mark(text: str, mark: str) -> str:
    """The text with the mark; an open fence is closed, because it would hide the mark."""
    return next(reply for reply in _replies_with_fence_closed(text, mark) if _ends_with_mark(reply, mark))


def _replies_with_fence_closed(text: str, mark: str) -> Iterator[str]:
    yield f"{text}\n{mark}" if text else mark
    for fence in sorted(set(_FENCES.findall(text)), key=len):
        yield f"{text}\n{fence}\n{mark}"


def _ends_with_mark(reply: str, mark: str) -> bool:
    return any(seen.end == len(reply) for seen in marks(reply, lambda inner: inner == mark[1:-1]))
