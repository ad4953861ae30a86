"""The JSON Schema: it is valid, accepts what loads, and rejects exactly what the reader calls wrong in shape."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from interlock import load_host
from interlock.adapters.crews.crew_files import read_crew
from interlock.adapters.crews.yaml_documents import read_yaml
from interlock.crew.keys import AGENT, CREW
from interlock.crew.nodes import Mapping, Node, Scalar, Sequence
from interlock.crew.problem import Problems
from interlock.crew.schema import agent_schema, crew_schema
from interlock.crew.shapes import Either, ListOf, MapOf, Section

CREWS, AGENTS = Draft202012Validator(crew_schema()), Draft202012Validator(agent_schema())
ROOT = Path(__file__).parents[2]
SOUND = sorted(
    file
    for folder in (ROOT / "examples", ROOT / "src" / "interlock" / "templates")
    for file in folder.rglob("*.y*ml")
    if file.parent.name == "agents" or file.stem == "crew"
    if "broken" not in file.relative_to(ROOT).parts
)
# What is no YAML has no document that a schema could look at.
BROKEN = sorted(file for file in (ROOT / "examples" / "broken").glob("*.yaml") if file.stem != "bad-yaml")

# What the reader says about a value, or a key, that no other key can make right.
OF_SHAPE = ("empty-group", "missing-setting", "unknown-key", "bad-value", "missing-key", "bad-format")


def plain(node: Node) -> Any:
    match node:
        case Mapping():
            return {name: plain(inner) for name, _, inner in node}
        case Sequence():
            return [plain(item) for item in node.items]
        case Scalar():
            return node.value


def document(text: str) -> Any:
    """The document as an editor sees it."""
    problems = Problems()
    node = read_yaml(text.encode(), "crew.yaml", problems)
    assert node is not None, problems.found
    return plain(node)


def schema_of(file: Path) -> Draft202012Validator:
    return AGENTS if file.parent.name == "agents" else CREWS


# The schema itself


@pytest.mark.parametrize("schema", [crew_schema(), agent_schema()], ids=["crew", "agent"])
def test_the_schema_is_a_valid_schema(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def sections(section: Section) -> Iterator[Section]:
    yield section
    for key in section.keys:
        shape = key.shape
        while isinstance(shape, ListOf | MapOf | Either):
            shape = (
                shape.section if isinstance(shape, Either) else shape.value if isinstance(shape, MapOf) else shape.item
            )
        if isinstance(shape, Section):
            yield from sections(shape)


def bodies() -> Iterator[dict[str, Any]]:
    """Every object that the two schemas describe."""
    for schema in (crew_schema(), agent_schema()):
        yield from (schema, *schema["$defs"].values())


@pytest.mark.parametrize("section", {s.title: s for s in (*sections(CREW), *sections(AGENT))}.values(), ids=str)
def test_every_section_is_in_the_schema_and_has_no_other_keys(section: Section) -> None:
    names = [key.name for key in section.keys]
    found = [body for body in bodies() if list(body["properties"]) == names]
    assert found
    assert all(body["additionalProperties"] is False for body in found)
    required = [key.name for key in section.keys if key.required]
    assert all(body.get("required", []) == required for body in found)


def test_every_key_says_what_it_is_for() -> None:
    keys = [key for body in bodies() for key in body["properties"].values()]
    assert len(keys) > 100
    assert all(key["description"] for key in keys)


def test_legacy_keys_are_marked_as_deprecated() -> None:
    assert crew_schema()["properties"]["tasks"]["deprecated"] is True


def test_defaults_of_settings_are_told() -> None:
    assert crew_schema()["$defs"]["settings"]["properties"]["max_handoffs"]["default"] == 30


# What loads is accepted


def test_there_are_examples_and_templates() -> None:
    assert len(SOUND) >= 7
    assert len(BROKEN) >= 20


@pytest.mark.parametrize("file", SOUND, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_sound_file_is_accepted(file: Path) -> None:
    errors = schema_of(file).iter_errors(document(file.read_text(encoding="utf-8")))
    assert [error.message for error in errors] == []


@pytest.mark.parametrize(
    "file", [file for file in SOUND if file.name.startswith("crew.")], ids=lambda file: file.parent.name
)
def test_a_file_that_is_accepted_here_loads(file: Path) -> None:
    config = file.parent / "interlock.toml"
    assert read_crew(file, load_host(config) if config.exists() else None).is_sound


# Variants of one crew, each wrong or right in one place

WHOLE = """\
version: "2.0"
name: whole
entry_point: a
agents:
  - id: a
    temperature: 0
    tools: []
    is_terminal: true
    primary: {model: m, provider: openai}
    cost_limits: {max_tokens_per_call: 100}
    error_limits: {max_per_day: 3}
  - id: b
signals:
  - {name: "[GO]", behavior: sub_crew, priority: 60}
routing:
  signals:
    a:
      - {signal: "[GO]", target_crew: kid, context: {history: 3}}
      - {signal: "[FORK]", type: parallel, target: g, priority: 55}
  defaults: {b: a}
  agent_behaviors: {b: {auto_route: true}}
  parallel_groups: {g: {agents: [b], wait_for_all: true, timeout_seconds: 60, on_error: fail}}
sub_crews: {kid: {config_path: kid, settings: {max_handoffs: 5}}}
delegation: {children: {a: [b]}, select: all, max_depth: 3}
subscriptions: {b: [{pattern: "x:*", silent: false}]}
settings: {max_handoffs: 12, config_mode: permissive, loop_window: 0, context_trim_percent: 50}
"""

# Each line: a part of WHOLE, and what stands there instead.
WRONG = {
    "unknown key of a crew": ("name: whole", "nmae: whole"),
    "unknown key of an agent": ("temperature: 0", "heat: 0"),
    "unknown key of a model": ("provider: openai", "vendor: openai"),
    "unknown key of cost_limits": ("max_tokens_per_call: 100", "max_tokens: 100"),
    "unknown key of error_limits": ("max_per_day: 3", "max_per_week: 3"),
    "unknown key of a signal": ("behavior: sub_crew", "behaviour: sub_crew"),
    "unknown key of routing": ("  defaults:", "  default:"),
    "unknown key of a route": ("target: g", "goal: g"),
    "unknown key of context": ("history: 3", "story: 3"),
    "unknown key of a behavior": ("auto_route: true", "autoroute: true"),
    "unknown key of a group": ("wait_for_all: true", "wait_all: true"),
    "unknown key of a sub-crew": ("config_path: kid,", "config_path: kid, path: kid,"),
    "unknown key of a sub-crew's settings": ("max_handoffs: 5", "max_rounds: 5"),
    "unknown key of delegation": ("select: all", "choose: all"),
    "unknown key of a subscription": ("silent: false", "quiet: false"),
    "unknown key of settings": ("max_handoffs: 12", "max_handofs: 12"),
    "missing version": ('version: "2.0"\n', ""),
    "missing entry_point": ("entry_point: a\n", ""),
    "missing agents": ("agents:\n", "description:\nx:\n"),
    "missing id of an agent in place": ("- id: b", "- role: b"),
    "missing model": ("{model: m, provider: openai}", "{provider: openai}"),
    "missing name of a signal": ('{name: "[GO]", behavior', "{behavior"),
    "missing signal of a route": ('{signal: "[FORK]", type', "{type"),
    "missing agents of a group": ("agents: [b], wait", "wait"),
    "missing config_path": ("config_path: kid, ", ""),
    "missing children": ("children: {a: [b]}, ", ""),
    "missing pattern": ('pattern: "x:*", ', ""),
    "text for a list": ("tools: []", "tools: hammer"),
    "a mapping for a list": ("agents: [b], wait", "agents: {b: 1}, wait"),
    "a list for a mapping": ("defaults: {b: a}", "defaults: [b, a]"),
    "a list for a section": ("{auto_route: true}", "[auto_route]"),
    "text for a section": ("{max_handoffs: 5}", "many"),
    "nothing for a section with required keys": ("primary: {model: m, provider: openai}", "primary:"),
    "nothing for a route": ('      - {signal: "[FORK]"', '      -\n      - {signal: "[FORK]"'),
    "nothing for an agent": ("  - id: b", "  -\n  - id: b"),
    "text for a number": ("max_handoffs: 12", "max_handoffs: twelve"),
    "a quoted number": ("max_handoffs: 12", 'max_handoffs: "12"'),
    "hexadecimal": ("max_handoffs: 12", "max_handoffs: 0x1F"),
    "infinity": ("timeout_seconds: 60", "timeout_seconds: .inf"),
    "true for a number": ("max_handoffs: 12", "max_handoffs: true"),
    "nothing for a number": ("max_handoffs: 12", "max_handoffs: null"),
    "a list for a number": ("max_handoffs: 12", "max_handoffs: [12]"),
    "a number for text": ("name: whole", "name: 7"),
    "true for text": ("entry_point: a", "entry_point: true"),
    "nothing for text": ("name: whole", "name:"),
    "blank text": ("name: whole", 'name: "  "'),
    "a list for text": ("name: whole", "name: [whole]"),
    "a word for a flag": ("wait_for_all: true", "wait_for_all: yes"),
    "a number for a flag": ("wait_for_all: true", "wait_for_all: 1"),
    "nothing for a flag": ("silent: false", "silent: null"),
    "another version": ('version: "2.0"', 'version: "3.0"'),
    "another version as a number": ('version: "2.0"', "version: 3"),
    "true for a version": ('version: "2.0"', "version: true"),
    "another word of a signal's behavior": ("behavior: sub_crew", "behavior: subcrew"),
    "another word of a type": ("type: parallel", "type: Parallel"),
    "another word of a setting": ("config_mode: permissive", "config_mode: lax"),
    "another word of a group": ("on_error: fail", "on_error: stop"),
    "another word of delegation": ("select: all", "select: some"),
    "nothing for a word": ("config_mode: permissive", "config_mode: null"),
    "below the range": ("max_handoffs: 12", "max_handoffs: 0"),
    "negative": ("temperature: 0", "temperature: -0.1"),
    "above the range": ("temperature: 0", "temperature: 2.1"),
    "a bound that is excluded": ("context_trim_percent: 50", "context_trim_percent: 0"),
    "far above the range": ("max_depth: 3", "max_depth: 33"),
    "a priority that is too high": ("priority: 55", "priority: 1001"),
    "a fraction of a whole number": ("max_handoffs: 12", "max_handoffs: 12.5"),
    "a share that is no share": ("history: 3", "history: some"),
    "a share of less than nothing": ("history: 3", "history: -1"),
    "all of the history back": ("history: 3", "return_history: all"),
    "a signal without brackets": ('signal: "[FORK]"', "signal: FORK"),
    "a signal that is a list": ('signal: "[FORK]"', "signal: [FORK]"),
    "a signal without a name": ('signal: "[FORK]"', 'signal: "[]"'),
    "a signal without a letter": ('signal: "[FORK]"', 'signal: "[_-]"'),
    "a signal with two spaces": ('signal: "[FORK]"', 'signal: "[FO  RK]"'),
    "a signal with a space at its end": ('signal: "[FORK]"', 'signal: "[FORK ]"'),
    "a signal with a bracket inside": ('signal: "[FORK]"', 'signal: "[FO[RK]"'),
    "a signal with a full stop": ('signal: "[FORK]"', 'signal: "[FO.RK]"'),
    "a signal with a line break at its end": ('signal: "[FORK]"', 'signal: "[FORK]\\n"'),
    "a signal with text behind it": ('signal: "[FORK]"', 'signal: "[FORK] now"'),
    "a signal that is too long": ('signal: "[FORK]"', f'signal: "[{"F" * 199}]"'),
    "a defined signal without brackets": ('name: "[GO]"', "name: GO"),
    "no agents": ("agents:\n  - id: a", "agents: []\nx:\n  - id: a"),
    "a route that is text": ('{signal: "[FORK]", type: parallel, target: g, priority: 55}', '"[FORK]"'),
}

RIGHT = {
    "as it is": ("", ""),
    "a version without quotes": ('version: "2.0"', "version: 2.0"),
    "nothing for text that may be blank": ("name: whole", "name: whole\ndescription:"),
    "nothing for a list": ("tools: []", "tools:"),
    "nothing for a mapping": ("defaults: {b: a}", "defaults:"),
    "nothing for a section": ("agent_behaviors: {b: {auto_route: true}}", "agent_behaviors: {b: }"),
    "a whole number with a fraction of nothing": ("max_handoffs: 12", "max_handoffs: 12.0"),
    "a number with an exponent": ("max_handoffs: 12", "max_handoffs: 1e1"),
    "all of the history": ("history: 3", "history: all"),
    "none of the history": ("history: 3", "return_history: none"),
    "a whole share": ("history: 3", "history: 3.0"),
    "the lowest of a range": ("max_handoffs: 12", "max_handoffs: 1"),
    "the highest of a range": ("max_depth: 3", "max_depth: 32"),
    "a signal in another script": ('signal: "[FORK]"', 'signal: "[KẾT_THÚC THI-2]"'),
    "a signal of the greatest length": ('signal: "[FORK]"', f'signal: "[{"F" * 198}]"'),
    "a legacy key with anything in it": ("max_handoffs: 12", "max_memory_mb: [a, {b: 1}]"),
    "tasks": ("name: whole", "name: whole\ntasks: [{id: 1}]"),
}


def variant(change: tuple[str, str]) -> str:
    old, new = change
    assert old in WHOLE
    return WHOLE.replace(old, new, 1)


def reader_objects(folder: Path, text: str) -> bool:
    (folder / "kid").mkdir(exist_ok=True)
    (folder / "kid" / "crew.yaml").write_text('version: "2.0"\nentry_point: x\nagents: [{id: x}]\n', encoding="utf-8")
    (folder / "crew.yaml").write_text(text, encoding="utf-8")
    return any(problem.code in OF_SHAPE for problem in read_crew(folder).problems)


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_variant_that_is_wrong_is_refused_by_schema_and_reader(tmp_path: Path, change: tuple[str, str]) -> None:
    text = variant(change)
    assert not CREWS.is_valid(document(text))
    assert reader_objects(tmp_path, text)


@pytest.mark.parametrize("change", RIGHT.values(), ids=RIGHT)
def test_a_variant_that_is_right_is_taken_by_schema_and_reader(tmp_path: Path, change: tuple[str, str]) -> None:
    text = variant(change)
    assert [error.message for error in CREWS.iter_errors(document(text))] == []
    assert not reader_objects(tmp_path, text)


def test_every_section_has_a_variant_with_an_unknown_key() -> None:
    """So that a section that is added has one too."""
    told = [name for name in WRONG if name.startswith("unknown key of")]
    assert len(told) == len({section.title for section in sections(CREW)})


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_schema_and_reader_agree_on_the_broken_examples(file: Path) -> None:
    refused = any(problem.code in OF_SHAPE for problem in read_crew(file).problems)
    assert CREWS.is_valid(document(file.read_text(encoding="utf-8"))) is not refused


@pytest.mark.parametrize("version", ["2", "2.00", "2e0"])
def test_a_version_in_another_spelling_is_refused_by_the_reader_alone(tmp_path: Path, version: str) -> None:
    """The only known difference: to a schema 2, 2.0 and 2.00 are one number."""
    text = variant(('version: "2.0"', f"version: {version}"))
    assert CREWS.is_valid(document(text))
    assert reader_objects(tmp_path, text)


@pytest.mark.parametrize("text", ["[]", "hello", "7", ""])
def test_what_is_no_mapping_is_no_crew(tmp_path: Path, text: str) -> None:
    assert not CREWS.is_valid(document(text))
    assert reader_objects(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "right"),
    [("role: x", True), ("id: a\nmodel: openai:m", True), ("", False), ("rool: x", False), ("temperature: hot", False)],
)
def test_agent_files_have_a_schema_of_their_own(text: str, right: bool) -> None:
    assert AGENTS.is_valid(document(text)) is right


def test_the_pattern_of_signals_means_the_same_in_every_dialect() -> None:
    """No escapes that only some regular expressions know, such as \\p or \\Z."""
    pattern = crew_schema()["$defs"]["route"]["properties"]["signal"]["pattern"]
    assert not re.search(r"\\[pPZAz]", pattern)


@pytest.mark.parametrize(
    "route",
    [
        'signal: "[GO]", type: sub_crew',
        'signal: "[GO]", type: terminate, target: a',
        'signal: "[GO]", type: route, target: a, pause: true',
        'signal: "[GO]", type: external, targets: [a]',
    ],
)
def test_the_schema_knows_what_a_stated_type_asks_for_and_rules_out(route: str) -> None:
    text = f'version: "2.0"\nentry_point: a\nagents: [{{id: a}}]\nrouting: {{signals: {{a: [{{{route}}}]}}}}\n'
    assert not CREWS.is_valid(document(text))
