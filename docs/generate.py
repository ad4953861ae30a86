"""Writes docs/reference from the code, and the generated parts of other pages. `make docs` runs it; tests compare.

Usage: python docs/generate.py
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

import interlock.messages as protocol
from interlock.cli.main import interlock
from interlock.crew.codes import CODES
from interlock.crew.definition import (
    AgentBehavior,
    AgentDefinition,
    CrewSettings,
    DelegationDefinition,
    GroupDefinition,
    RouteDefinition,
    SubscriptionDefinition,
)
from interlock.crew.keys import AGENT, CREW
from interlock.crew.shapes import Either, Key, ListOf, MapOf, Section
from interlock.events import TYPES, PublicStruct, StoredEvent
from interlock.messages import MessageError
from interlock.messages.states import as_mermaid
from interlock.messages.wire import ANSWERED_BY, WIRE_KEYS
from interlock.signals.builtin import BUILT_IN

REFERENCE = Path(__file__).parent / "reference"
GALLERY = Path(__file__).parent.parent / "examples" / "broken"
HEAD = "<!-- Made from the code by docs/generate.py; edit that, not this. -->\n\n"
DEFINITIONS = {
    "an agent": AgentDefinition,
    "agent behavior": AgentBehavior,
    "a parallel group": GroupDefinition,
    "a route": RouteDefinition,
    "delegation": DelegationDefinition,
    "settings": CrewSettings,
    "a subscription": SubscriptionDefinition,
}


def pages() -> dict[str, str]:
    """The pages of the reference by file name."""
    return {
        "commands.md": HEAD + commands(),
        "crew-files.md": HEAD + crew_files(),
        "events.md": HEAD + events(),
        "messages.md": HEAD + messages(),
        "model-features.md": HEAD + model_features(),
        "problems.md": HEAD + problems(),
        "signals.md": HEAD + signals(),
    }


def model_features() -> str:
    """What works with which provider, as tests against strict providers show it."""
    from tests.fakes.dialects.features import table

    lines = [
        "# Features of models by provider",
        "",
        "Each *works* is a test that runs the real client against a strict provider on the loopback, which refuses",
        "what the real one refuses (`tests/fakes/dialects`). Each *refused by `check`* is a test of `check`. Single",
        "models may take less than their provider: `check` knows those that are listed in `adapters/models`. How to",
        "ask for each: [models](../guide/models.md).",
        "",
        *table(),
    ]
    return "\n".join(lines) + "\n"


def messages() -> str:
    """The six messages with their keys, and the states with their moves."""
    lines = ["# Messages", "", "| type | keys, in this order | answered by |", "|---|---|---|"]
    lines += [f"| `{kind}` | {_words(keys)} | {ANSWERED_BY.get(kind, '')} |" for kind, keys in WIRE_KEYS.items()]
    lines += ["", "A REPORT is `completed`, `partial` or `needs_help`. A refusal has one of these codes:", ""]
    lines += [f"- `{each.code}`: {(each.__doc__ or each.__name__).splitlines()[0]}" for each in refusals()]
    lines += ["", "# States of an agent", "", "```mermaid", as_mermaid(), "```", ""]
    return "\n".join(lines)


def refusals() -> list[type[MessageError]]:
    found = [each for each in vars(protocol).values() if isinstance(each, type) and issubclass(each, MessageError)]
    return sorted(found, key=lambda each: each.code)


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def events() -> str:
    """The events with their classes and fields."""
    lines = [
        "# Events",
        "",
        "`run.events()` yields these classes of `interlock.events`; `--json`, SSE and `GET /v1/runs/{id}/events` show",
        "the same as JSON. Every event has `run` and `type`, one of the journal also `seq` and `at` (milliseconds).",
        "`path` names the sub-crews down to the run of the event, if that is below the run that is followed.",
        "Fields in brackets are left out while they are empty.",
        "",
        "| type | class | fields | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *(event_row(name, TYPES[name]) for name in sorted(TYPES)), ""])


def event_row(name: str, kind: type[PublicStruct]) -> str:
    every = {field.name for field in msgspec.structs.fields(StoredEvent)}
    own = [field for field in msgspec.structs.fields(kind) if field.name not in every]
    names = ", ".join(f"`{f.encode_name}`" if f.required else f"[`{f.encode_name}`]" for f in own)
    unstored = "" if issubclass(kind, StoredEvent) else " Not stored."
    return f"| `{name}` | `{kind.__name__}` | {names} | {summary_of(kind)}{unstored} |"


def summary_of(kind: type[PublicStruct]) -> str:
    return " ".join((kind.__doc__ or "").split()).replace("|", "&#124;")


def crew_files() -> str:
    lines = [
        "# Keys of crew files",
        "",
        "An unknown key is an error. Each key has a test that sees its effect.",
        "",
    ]
    for path, section in sections("crew.yaml", CREW):
        lines += [f"## `{path}`: {section.title}", "", "| key | value | default | meaning |", "|---|---|---|---|"]
        lines += [key_row(key, section) for key in section.keys if not key.legacy]
        lines.append("")
        legacy = [key for key in section.keys if key.legacy]
        if legacy:
            lines += ["Accepted so that old files load; each is reported as a note:", ""]
            lines += [f"- `{key.name}`: {key.legacy}" for key in legacy] + [""]
    return "\n".join(lines)


def sections(path: str, section: Section) -> Iterator[tuple[str, Section]]:
    """A section and all sections inside it; agents appear once, although they may be in place or in a file."""
    yield path, section
    for key in section.keys:
        inner, suffix = key.shape, key.name
        while isinstance(inner, ListOf | MapOf):
            suffix += "[]" if isinstance(inner, ListOf) else ".<name>"
            inner = inner.item if isinstance(inner, ListOf) else inner.value
        if isinstance(inner, Either):
            inner, suffix = AGENT, "agents[] or agents/<id>.yaml"
        if isinstance(inner, Section):
            yield from sections(suffix if path == "crew.yaml" else f"{path}.{suffix}", inner)


def key_row(key: Key, section: Section) -> str:
    name = f"`{key.name}`" + (" (required)" if key.required else "")
    return f"| {name} | {key.shape} | {default_of(key, section)} | {key.doc.replace('|', '&#124;')} |"


def default_of(key: Key, section: Section) -> str:
    definition = DEFINITIONS.get(section.title)
    field = next((f for f in getattr(definition, "__struct_fields__", ()) if f == key.name), None)
    if definition is None or field is None:
        return ""
    defaults = dict(zip(definition.__struct_fields__[::-1], definition.__struct_defaults__[::-1], strict=False))
    value = defaults.get(key.name)
    return "" if value in (None, "", ()) or not isinstance(value, str | int | float) else f"`{str(value).lower()}`"


def problems() -> str:
    lines = ["# Problems", "", "Codes are stable. Each but the last has a crew that shows it in `examples/broken`.", ""]
    for code, meaning in CODES.items():
        example = next((path.name for path in sorted(GALLERY.glob(f"{code}*"))), None)
        shown = f" ([example](../../examples/broken/{example}))" if example else ""
        lines.append(f"- **{code}**: {meaning}{shown}")
    return "\n".join(lines) + "\n"


def signals() -> str:
    lines = ["# Built-in signals", "", "A crew may override any of them under `signals`.", ""]
    lines += ["| signal | behaviour | priority | meaning | example |", "|---|---|---|---|---|"]
    lines += [f"| `{d.name}` | {d.behavior} | {d.priority} | {d.description} | {d.example} |" for d in BUILT_IN]
    return "\n".join(lines) + "\n"


def commands() -> str:
    lines = [
        "# Commands",
        "",
        "Exit codes: 0 success, 1 the crew has errors or the run did not complete, 2 wrong use or unreadable file,",
        "3 the run is paused.",
        "",
    ]
    for words, command in walk(interlock, ("interlock",)):
        context = click.Context(command, info_name=" ".join(words), max_content_width=100, terminal_width=100)
        lines += [f"## {' '.join(words)}", "", "```text", command.get_help(context), "```", ""]
    return "\n".join(lines)


def walk(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, "the group lists its own commands"
            yield from walk(inner, (*words, name))


if __name__ == "__main__":
    sys.path.insert(0, str(REFERENCE.parent.parent))
    from docs.blocks import PAGES, current_page

    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, "utf-8")
    for page in PAGES:
        page.write_text(current_page(page), "utf-8")
