"""What works with which provider, as the tests show it. The table of the docs is written from here.

Rule 1: a test says what it shows: `@shows("streaming", ANTHROPIC, GEMINI)`. It must be answered by a strict provider of
        one of these dialects, or it fails.
Rule 2: `@shows("seed", ANTHROPIC, by=REFUSED)` stands on a test that `check` refuses it.
Rule 3: what is not offered has a reason in NOT_OFFERED, and no test.
Rule 4: the arguments are literals or the names below, so that the table is read from the source without running it.
"""

import ast
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tests.fakes.dialects.server import DialectServer

OPENAI_CHAT = "openai_chat"
OPENAI_RESPONSES = "openai_responses"
DEEPSEEK = "deepseek"
ANTHROPIC = "anthropic"
GEMINI = "gemini"

# The modules of the dialects, with the heading of their column.
DIALECTS = {
    OPENAI_CHAT: "OpenAI chat",
    OPENAI_RESPONSES: "OpenAI Responses",
    DEEPSEEK: "DeepSeek style",
    ANTHROPIC: "Anthropic",
    GEMINI: "Gemini",
}

FEATURES = {
    "streaming": "streaming",
    "tools": "tools",
    "parallel tools": "several tool calls in one reply",
    "typed output": "typed output by the provider's own schema",
    "typed output with tools": "typed output beside tools",
    "constrained": "`signal_mode: constrained`",
    "reasoning shown": "reasoning shown while it streams",
    "reasoning sent back": "reasoning sent back in the tool loop",
    "reasoning": "`reasoning`",
    "cache": "`cache` (on request)",
    "implicit cache": "cache without asking",
    "cache usage": "cached tokens counted",
    "max_tokens": "`max_tokens`",
    "seed": "`seed`",
    "stop": "`stop`",
    "parallel_tool_calls": "`parallel_tool_calls`",
    "service_tier": "`service_tier`",
    "extra": "`extra`",
    "images": "images",
}

WORKS, REFUSED, ABSENT = "works", "refused by `check`", "not offered"

# Why there is nothing to show. The reason stands below the table.
NOT_OFFERED: dict[tuple[str, str], str] = {
    **{("images", dialect): "prompts are text so far" for dialect in DIALECTS},
    ("implicit cache", ANTHROPIC): "it caches only what it is asked to, which is the default here",
    ("reasoning shown", OPENAI_CHAT): "chat completions of OpenAI do not tell what was reasoned",
    ("reasoning sent back", OPENAI_CHAT): "chat completions of OpenAI do not tell what was reasoned",
    ("typed output", DEEPSEEK): "it takes no schema; the prompt shows it, and the reply is held to be JSON",
    ("typed output with tools", DEEPSEEK): "it takes no schema; the prompt shows it, and the reply is held to be JSON",
    ("constrained", DEEPSEEK): "it takes no schema; `check` warns",
}

TESTS = Path(__file__).parents[2]
T = TypeVar("T", bound=Callable[..., Any])


def shows(feature: str, *dialects: str, by: str = WORKS) -> Callable[[T], T]:
    """Says that a test shows a feature with these dialects; a parametrised test may show one a time."""
    assert feature in FEATURES and dialects and set(dialects) <= set(DIALECTS)

    def watched(test: T) -> T:
        if by == REFUSED:
            return test
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def watch(*args: Any, **named: Any) -> None:
                before = len(DialectServer.answered)
                await test(*args, **named)
                _require_answer(before, dialects)
        else:

            @functools.wraps(test)
            def watch(*args: Any, **named: Any) -> None:
                before = len(DialectServer.answered)
                test(*args, **named)
                _require_answer(before, dialects)

        return watch  # type: ignore[return-value]

    return watched


def _require_answer(before: int, dialects: tuple[str, ...]) -> None:
    answered = set(DialectServer.answered[before:])
    assert answered & set(dialects), f"no strict {' or '.join(dialects)} has answered, only {sorted(answered)}"


def rows() -> dict[tuple[str, str], str]:
    """What each feature is with each dialect: as a test shows, or not offered."""
    found = dict.fromkeys(NOT_OFFERED, ABSENT)
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text("utf-8")
        for feature, dialect, state in _claims(text) if "@shows(" in text else ():
            if found.setdefault((feature, dialect), state) != state:
                raise LookupError(f"{file.name} shows that {feature} with {dialect} is {state!r}; before, another way")
    return found


def _claims(text: str) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "shows":
                    feature, *dialects = map(_value, call.args)
                    state = _value(call.keywords[0].value) if call.keywords else WORKS
                    yield from ((feature, dialect, state) for dialect in dialects)


def _value(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return str(globals()[node.id])
    return str(ast.literal_eval(node))


def table() -> Iterator[str]:
    """The table in Markdown. A dialect has a column as soon as a test shows something with it."""
    found = rows()
    dialects = [each for each in DIALECTS if any(state != ABSENT and at == each for (_, at), state in found.items())]
    yield "| | " + " | ".join(DIALECTS[each] for each in dialects) + " |"
    yield "|---|" + "---|" * len(dialects)
    for feature, words in FEATURES.items():
        states = [found.get((feature, dialect), "?") for dialect in dialects]
        yield f"| {words} | " + " | ".join(states) + " |"
    yield ""
    reasons: dict[str, list[str]] = {}
    for (feature, dialect), reason in NOT_OFFERED.items():
        if dialect in dialects:
            reasons.setdefault(f"{FEATURES[feature]}: {reason}", []).append(DIALECTS[dialect])
    for reason, where in reasons.items():
        yield f"- {reason}" + ("" if len(where) == len(dialects) else f" ({', '.join(where)})")
