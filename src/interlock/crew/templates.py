"""Placeholders. There is no template engine: the fields are fixed, and any other is a problem at load."""

import re
from collections.abc import Callable, Iterator

PROMPT_FIELDS = ("backstory", "description", "name", "role")
INPUT_FIELDS = ("Input", "OriginalInput", "PreviousResult")
INPUT_FIELD_FAMILIES = ("PreviousResults", "SharedMemory")

# In a prompt double braces may be anything, such as JSON; a word, also with a dot or pipe, is meant as a field.
_PROMPT_FIELD = re.compile(r"\{\{[ \t]*\.?([A-Za-z_][\w.\-]*(?:[ \t]*\|[^{}\n]*)?)[ \t]*\}\}")
_KNOWN_FIELD = re.compile(rf"\{{\{{[ \t]*\.?({'|'.join(PROMPT_FIELDS)})[ \t]*\}}\}}")
_INPUT_FIELD = re.compile(r"\{\{([^{}]*)\}\}")


def unknown_prompt_fields(prompt: str) -> Iterator[str]:
    """The unknown fields of a prompt."""
    for field in _PROMPT_FIELD.finditer(prompt):
        if field[1].strip() not in PROMPT_FIELDS:
            yield field[0]


def fill_prompt(prompt: str, values: object) -> str:
    """The prompt with its fields filled from the agent's definition, in one pass."""
    return _KNOWN_FIELD.sub(lambda field: str(getattr(values, field[1])), prompt)


def fields_of_prompt(prompt: str) -> Iterator[str]:
    """The known fields that a prompt uses."""
    names = (field[1].strip() for field in _PROMPT_FIELD.finditer(prompt))
    return (name for name in names if name in PROMPT_FIELDS)


def fields_of_input(template: str) -> Iterator[tuple[str, str]]:
    """The fields that an input template uses, each with the part after its dot."""
    for field in _INPUT_FIELD.finditer(template):
        name, _, key = field[1].strip().removeprefix(".").partition(".")
        yield name, key


def unknown_input_fields(
    template: str, crews: tuple[str, ...], typed: tuple[str, ...] = ()
) -> Iterator[tuple[str, str]]:
    """The unknown fields of an input template, each with a fix. Results of `typed` crews have parts."""
    for field in _INPUT_FIELD.finditer(template):
        name = field[1].strip()
        if name.startswith(".") and name[1:] in INPUT_FIELDS:
            continue
        family, dot, key = name.removeprefix(".").partition(".")
        if not name.startswith(".") or family not in INPUT_FIELD_FAMILIES or not dot or not key:
            known = [*INPUT_FIELDS, "PreviousResults.<crew>", "SharedMemory.<key>"]
            yield field[0], "the fields are " + ", ".join(f"{{{{.{name}}}}}" for name in known)
        elif family == "PreviousResults" and key not in crews and not result_field(key, typed)[0]:
            yield field[0], f"the sub-crews are {', '.join(crews) or 'none'}"


def result_field(key: str, crews: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The sub-crew that a key of PreviousResults names, and the part of its output; no crew if there is none."""
    if key in crews:
        return key, ()
    named = [crew for crew in crews if key.startswith(f"{crew}.") and all(key[len(crew) + 1 :].split("."))]
    crew = max(named, key=len, default="")
    return crew, tuple(key[len(crew) + 1 :].split(".")) if crew else ()


def as_placeholder(field: str, key: str) -> str:
    """A field of an input template as it is written."""
    return f"{{{{.{field}.{key}}}}}" if key else f"{{{{.{field}}}}}"


def fill_template(template: str, value_of: Callable[[str, str], str]) -> str:
    """The template with its fields filled in one pass; filled values are never expanded again.

    `value_of` takes a field and the part after its dot, if it has one.
    """

    def value(field: re.Match[str]) -> str:
        name, _, key = field[1].strip().removeprefix(".").partition(".")
        return value_of(name, key)

    return _INPUT_FIELD.sub(value, template)
