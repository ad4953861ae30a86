"""Every key has an effect. The names come from the tables that the reader, the schema and the reference are made of.

A key is in exactly one of two places:
COVERED  two crews that differ in this key alone, and something that comes out differently;
LEGACY   a key of the old programs that means nothing here, and is reported as a note.
"""

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from interlock.adapters.crews.crew_files import LoadedCrew, read_crew
from interlock.crew.keys import AGENT, CREW
from interlock.crew.problem import Severity
from interlock.crew.registry import registry_of
from interlock.crew.shapes import (
    Either,
    Flag,
    JsonMap,
    Key,
    ListOf,
    MapOf,
    Number,
    SchemaText,
    Section,
    Shape,
    Share,
    SignalText,
    Text,
    WordOrNumber,
)
from interlock.diagrams.builder import diagram_of
from interlock.diagrams.text import as_text
from interlock.engine.routing.decision import OwnReply, RoutingTable
from interlock.signals.report import registry_report
from tests.crew.keys_of_runs import RUNS, Case
from tests.crew.keys_of_servers import SERVED

Look = Callable[[LoadedCrew], Any]
Step = str | int


def keys_below(section: Section, prefix: str = "") -> Iterator[tuple[str, Key]]:
    """Every key of a section and of what it holds, as `routing.signals.*[].target`."""
    for key in section.keys:
        name = f"{prefix}{key.name}"
        yield name, key
        inner, suffix = _innermost(key.shape)
        if isinstance(inner, Section):
            yield from keys_below(inner, f"{name}{suffix}.")


def _innermost(shape: Shape) -> tuple[Shape, str]:
    suffix = ""
    while isinstance(shape, ListOf | MapOf):
        suffix += "[]" if isinstance(shape, ListOf) else ".*"
        shape = shape.item if isinstance(shape, ListOf) else shape.value
    return (shape.section if isinstance(shape, Either) else shape), suffix


KEYS = dict(keys_below(CREW))


# What one looks at


def codes(*wanted: str) -> Look:
    """Which of these problems there are."""
    return lambda loaded: [problem.code for problem in loaded.problems if problem.code in wanted]


def decided(agent: str, reply: str) -> Look:
    """What a reply does."""

    def look(loaded: LoadedCrew) -> tuple[str | None, str]:
        assert loaded.crew is not None
        decision = RoutingTable(loaded.crew).decide(OwnReply(agent, reply))
        return decision.verb, decision.target or decision.then

    return look


def because(agent: str, reply: str) -> Look:
    def look(loaded: LoadedCrew) -> str:
        assert loaded.crew is not None
        return RoutingTable(loaded.crew).decide(OwnReply(agent, reply)).because

    return look


def is_held(loaded: LoadedCrew) -> bool:
    assert loaded.crew is not None
    return RoutingTable(loaded.crew).decide(OwnReply("a", "[NEXT]")).held


def reported(signal: str) -> Look:
    """The lines of the registry report that tell of a signal."""

    def look(loaded: LoadedCrew) -> list[str]:
        assert loaded.crew is not None
        lines = registry_report(registry_of(loaded.crew)).splitlines()
        at = next((n for n, line in enumerate(lines) if line.startswith(signal)), len(lines))
        rest = next((n for n, line in enumerate(lines) if n > at and not line.startswith(" ")), len(lines))
        return [line.strip() for line in lines[at:rest]]

    return look


def drawn(words: str) -> Look:
    """Whether the picture for terminals holds these words."""

    def look(loaded: LoadedCrew) -> bool:
        assert loaded.crew is not None
        return words in as_text(diagram_of(loaded.crew))

    return look


def crew_name(loaded: LoadedCrew) -> str:
    assert loaded.crew is not None
    return loaded.crew.name


HEAD = 'version: "2.0"\nentry_point: a\n'
ALONE = HEAD + "agents: [{id: a}]\n"
PAIR = HEAD + "agents: [{id: a}, {id: b, is_terminal: true}]\n"
NEXT = '{signal: "[NEXT]", target: b}'
PAIR_NEXT = PAIR + f"routing: {{signals: {{a: [{NEXT}]}}}}\n"
CHILD = (
    'version: "2.0"\nentry_point: x\nagents: [{id: x}]\n'
    'routing: {signals: {x: [{signal: "[AGAIN]", target: x, type: route}, {signal: "[END]"}]}}\n'
)
CALLING = PAIR + (
    "sub_crews: {kid: {config_path: kid}, kid2: {config_path: kid}}\n"
    'routing: {signals: {a: [{signal: "[ASK]", type: sub_crew, target_crew: kid, <>}, {signal: "[END]"}, '
    f"{NEXT}]}}}}\n"
)


TYPED_CHILD = 'version: "2.0"\nentry_point: x\noutput: {type: integer}\nagents: [{id: x}]\n'


def an_agent(keys: str) -> str:
    """A crew of two, the first of which has these keys."""
    return HEAD + f"agents: [{{id: a, {keys}}}, {{id: b, is_terminal: true}}]\n"


def a_route(keys: str, agents: str = PAIR) -> str:
    return agents + f"routing: {{signals: {{a: [{{{keys}}}]}}}}\n"


def a_signal(keys: str, route: str = 'signal: "[GO]", target: b') -> str:
    return PAIR + f'signals: [{{name: "[GO]", {keys}}}]\n' + f"routing: {{signals: {{a: [{{{route}}}]}}}}\n"


def a_behavior(keys: str) -> str:
    return PAIR + f"routing: {{signals: {{a: [{NEXT}]}}, agent_behaviors: {{a: {{{keys}}}}}}}\n"


def a_group(keys: str) -> str:
    fork = '{signal: "[FORK]", type: parallel, target: g}'
    return PAIR + f"routing: {{signals: {{a: [{fork}, {{signal: '[END]'}}]}}, parallel_groups: {{g: {{{keys}}}}}}}\n"


def a_delegation(keys: str) -> str:
    return (
        HEAD
        + f"agents: [{{id: a}}, {{id: b}}, {{id: c}}]\nsettings: {{on_no_signal: complete}}\ndelegation: {{{keys}}}\n"
    )


REACH = codes("unreachable-agent")

COVERED: dict[str, Case] = {
    "version": Case(
        'version: <>\nentry_point: a\nagents: [{id: a}]\nrouting: {signals: {a: [{signal: "[X]"}]}}\n',
        '"1.0"',
        '"2.0"',
        lambda loaded: loaded.is_sound,
        (True, False),
    ),
    "name": Case(ALONE + "name: <>\n", "left", "right", crew_name, ("left", "right")),
    "description": Case(ALONE + "description: <>\n", "for all", "for few", drawn("for few"), (False, True)),
    "routing.agent_behaviors.*.description": Case(
        a_behavior("description: <>"), "waits", "hurries", drawn("hurries"), (False, True)
    ),
    "routing.parallel_groups.*.description": Case(
        a_group("agents: [b], next_agent: a, description: <>"), "side", "by side", drawn("by side"), (False, True)
    ),
    "sub_crews.*.description": Case(
        ALONE + "sub_crews: {kid: {config_path: kid, description: <>}}\n", "young", "old", drawn("old"), (False, True)
    ),
    "entry_point": Case(
        PAIR_NEXT.replace("entry_point: a", "entry_point: <>"), "a", "b", REACH, ([], ["unreachable-agent"])
    ),
    "agents": Case(HEAD + "agents: <>\n", "[{id: a}]", "[{id: b}]", codes("unknown-agent"), ([], ["unknown-agent"])),
    # Agents
    "agents[].id": Case(HEAD + "agents: [{id: <>}]\n", "a", "b", codes("unknown-agent"), ([], ["unknown-agent"])),
    "agents[].name": Case(an_agent("name: <>"), "Anna", "b", codes("name-clash"), ([], ["name-clash"])),
    "agents[].system_prompt": Case(
        an_agent("system_prompt: <>"),
        '"You are {{role}}."',
        '"You are {{rule}}. Say [ENDE]."',
        codes("unknown-field", "unknown-mark-in-prompt"),
        ([], ["unknown-field", "unknown-mark-in-prompt"]),
    ),
    "agents[].provider_url": Case(
        an_agent("model: openai:m, provider_url: <>"),
        '"http://here/v1"',
        '"here"',
        codes("bad-value"),
        ([], ["bad-value"]),
    ),
    "agents[].primary.provider_url": Case(
        an_agent("primary: {model: openai:m, provider_url: <>}"),
        '"http://here/v1"',
        '"here"',
        codes("bad-value"),
        ([], ["bad-value"]),
    ),
    "agents[].backup.provider_url": Case(
        an_agent("backup: {model: openai:m, provider_url: <>}"),
        '"http://here/v1"',
        '"here"',
        codes("bad-value"),
        ([], ["bad-value"]),
    ),
    "agents[].model": Case(
        an_agent("model: <>"), '"openai:m"', '"nobody:m"', codes("unknown-provider"), ([], ["unknown-provider"])
    ),
    "agents[].provider": Case(
        an_agent("model: m, provider: <>"),
        "openai",
        "nobody",
        codes("unknown-provider"),
        ([], ["unknown-provider"]),
    ),
    "agents[].primary": Case(
        an_agent("primary: <>"),
        "{model: m, provider: openai}",
        "{model: m, provider: nobody}",
        codes("unknown-provider"),
        ([], ["unknown-provider"]),
    ),
    "agents[].primary.model": Case(
        an_agent("primary: {model: <>}"),
        '"openai:m"',
        '"nobody:m"',
        codes("unknown-provider"),
        ([], ["unknown-provider"]),
    ),
    "agents[].primary.provider": Case(
        an_agent("primary: {model: m, provider: <>}"),
        "openai",
        "nobody",
        codes("unknown-provider"),
        ([], ["unknown-provider"]),
    ),
    "agents[].backup": Case(
        an_agent("backup: <>"),
        "{model: m, provider: openai}",
        "{model: m, provider: nobody}",
        codes("unknown-provider"),
        ([], ["unknown-provider"]),
    ),
    "agents[].backup.model": Case(
        an_agent("backup: {model: <>}"),
        '"openai:m"',
        '"nobody:m"',
        codes("unknown-provider"),
        ([], ["unknown-provider"]),
    ),
    "agents[].backup.provider": Case(
        an_agent("backup: {model: m, provider: <>}"),
        "openai",
        "nobody",
        codes("unknown-provider"),
        ([], ["unknown-provider"]),
    ),
    "agents[].tools": Case(
        an_agent("tools: <>"), "[ask_user]", "[ask_usr]", codes("unknown-tool"), ([], ["unknown-tool"])
    ),
    "agents[].handoff_targets": Case(
        an_agent("handoff_targets: <>"),
        "[b]",
        "[a]",
        decided("a", "Hm."),
        (("hand_over", "b"), ("hand_over", "a")),
    ),
    "agents[].is_terminal": Case(
        an_agent("is_terminal: <>"), "true", "false", decided("a", "Hm."), (("end", ""), (None, "nudge"))
    ),
    "agents[].signals": Case(
        an_agent("signals: <>") + f"routing: {{signals: {{a: [{NEXT}]}}}}\n",
        '["[NEXT]"]',
        '["[END]"]',
        codes("emitter-not-allowed"),
        ([], ["emitter-not-allowed"]),
    ),
    # Outputs
    "output": Case(
        HEAD + "output: <>\nagents: [{id: a, output: {type: integer}}]\n",
        "{type: number}",
        "{type: string}",
        codes("wrong-output"),
        ([], ["wrong-output"]),
    ),
    "agents[].output": Case(
        HEAD + "output: {type: number}\nagents: [{id: a, output: <>}]\n",
        "{type: integer}",
        "{type: string}",
        codes("wrong-output"),
        ([], ["wrong-output"]),
    ),
    "routing.signals.*[].takes": Case(
        a_route('signal: "[NEXT]", target: b, takes: <>', an_agent("output: {type: integer}")),
        "{type: number}",
        "{type: string}",
        codes("wrong-output"),
        ([], ["wrong-output"]),
    ),
    "sub_crews.*.output": Case(
        CALLING.replace("kid: {config_path: kid},", "kid: {config_path: typed, output: <>},").replace(", <>}", "}"),
        "{type: number}",
        "{type: string}",
        codes("wrong-output"),
        ([], ["wrong-output"]),
    ),
    # Signal definitions
    "signals": Case(
        a_route('signal: "[GO]", target: b') + "signals: <>\n",
        '[{name: "[GO]"}]',
        "[]",
        codes("unregistered-signal"),
        ([], ["unregistered-signal"]),
    ),
    "signals[].name": Case(
        a_route('signal: "[GO]", target: b') + "signals: [{name: <>}]\n",
        '"[GO]"',
        '"[WENT]"',
        codes("unregistered-signal"),
        ([], ["unregistered-signal"]),
    ),
    "signals[].description": Case(
        a_signal("description: <>"),
        "on you go",
        "off you go",
        reported("[GO]"),
        (["[GO] priority 50 - on you go"], ["[GO] priority 50 - off you go"]),
    ),
    "signals[].behavior": Case(
        a_signal("behavior: <>"),
        "route",
        "pause",
        decided("a", "[GO]"),
        (("hand_over", "b"), ("await", "b")),
    ),
    "signals[].default_target": Case(
        a_signal("default_target: <>", 'signal: "[GO]"'),
        "a",
        "b",
        decided("a", "[GO]"),
        (("hand_over", "a"), ("hand_over", "b")),
    ),
    "signals[].valid_targets": Case(
        a_signal("valid_targets: <>"), "[a, b]", "[a]", codes("invalid-target"), ([], ["invalid-target"])
    ),
    "signals[].allow_all_agents": Case(
        a_signal("allowed_agents: [b], allow_all_agents: <>"),
        "true",
        "false",
        codes("emitter-not-allowed"),
        ([], ["emitter-not-allowed"]),
    ),
    "signals[].allowed_agents": Case(
        a_signal("allowed_agents: <>"), "[a]", "[b]", codes("emitter-not-allowed"), ([], ["emitter-not-allowed"])
    ),
    "signals[].priority": Case(
        PAIR + f'signals: [{{name: "[GO]", priority: <>}}]\nrouting: {{signals: {{a: [{NEXT}, '
        '{signal: "[GO]", target: a}]}}\n',
        "49",
        "51",
        decided("a", "[GO] [NEXT]"),
        (("hand_over", "b"), ("hand_over", "a")),
    ),
    "signals[].example": Case(
        a_signal("example: <>"),
        '"Go! [GO]"',
        '"So: [GO]"',
        reported("[GO]"),
        (["[GO] priority 50", "example: Go! [GO]"], ["[GO] priority 50", "example: So: [GO]"]),
    ),
    "signals[].deprecated_msg": Case(
        a_signal("deprecated_msg: <>"),
        '""',
        '"Use [NEXT] instead"',
        codes("deprecated-signal"),
        ([], ["deprecated-signal"]),
    ),
    "signals[].required": Case(
        PAIR_NEXT + 'signals: [{name: "[GO]", required: <>}]\n',
        "false",
        "true",
        codes("required-signal"),
        ([], ["required-signal"]),
    ),
    # Routing
    "routing": Case(
        PAIR + "routing: <>\n",
        f"{{signals: {{a: [{NEXT}]}}}}",
        "{defaults: {a: b}}",
        because("a", "[NEXT]"),
        ("signal", "default"),
    ),
    "routing.signals": Case(
        PAIR + "routing: {signals: <>}\n", f"{{a: [{NEXT}]}}", "{}", because("a", "[NEXT]"), ("signal", "no_signal")
    ),
    "routing.signals.*[].signal": Case(
        a_route("signal: <>, type: route, target: b"),
        '"[GO]"',
        '"[WENT]"',
        decided("a", "[GO]"),
        (("hand_over", "b"), (None, "nudge")),
    ),
    "routing.signals.*[].target": Case(
        a_route('signal: "[NEXT]", target: <>'),
        "b",
        "a",
        decided("a", "[NEXT]"),
        (("hand_over", "b"), ("hand_over", "a")),
    ),
    "routing.signals.*[].type": Case(
        a_route('signal: "[GO]", target: b, type: <>'),
        "route",
        "pause",
        decided("a", "[GO]"),
        (("hand_over", "b"), ("await", "b")),
    ),
    "routing.signals.*[].priority": Case(
        PAIR + f'routing: {{signals: {{a: [{NEXT}, {{signal: "[RETRY]", target: a, priority: <>}}]}}}}\n',
        "49",
        "51",
        decided("a", "[RETRY] [NEXT]"),
        (("hand_over", "b"), ("hand_over", "a")),
    ),
    "routing.signals.*[].description": Case(
        a_route('signal: "[GO]", type: route, target: b, description: <>'),
        "on you go",
        "off you go",
        reported("[GO]"),
        (["[GO] priority 50 - on you go"], ["[GO] priority 50 - off you go"]),
    ),
    "routing.signals.*[].targets": Case(
        PAIR + 'routing: {signals: {a: [{signal: "[ALL]", type: broadcast, targets: <>}, {signal: "[END]"}]}}\n',
        "[b]",
        "[a]",
        REACH,
        ([], ["unreachable-agent"]),
    ),
    "routing.signals.*[].parallel_targets": Case(
        PAIR + 'routing: {signals: {a: [{signal: "[ALL]", parallel_targets: <>}, {signal: "[END]"}]}}\n',
        "[b]",
        "[a]",
        REACH,
        ([], ["unreachable-agent"]),
    ),
    "routing.signals.*[].pause": Case(
        a_route('signal: "[OUT]", type: external, pause: <>'),
        "true",
        "false",
        decided("a", "[OUT]"),
        (("await", ""), (None, "nudge")),
    ),
    "routing.signals.*[].target_crew": Case(
        CALLING.replace("target_crew: kid, <>", "target_crew: <>"),
        "kid",
        "kid2",
        decided("a", "[ASK]"),
        (("call", "kid"), ("call", "kid2")),
    ),
    "routing.signals.*[].return_to": Case(
        CALLING.replace(f", {NEXT}", "").replace("<>", "return_to: <>"), "b", "a", REACH, ([], ["unreachable-agent"])
    ),
    "routing.signals.*[].input_template": Case(
        CALLING.replace("<>", "input_template: <>"),
        '"Find {{.Input}}"',
        '"Find {{.Inputs}}"',
        codes("unknown-field"),
        ([], ["unknown-field"]),
    ),
    "routing.signals.*[].on_error": Case(
        CALLING.replace(f", {NEXT}", "").replace("<>", "on_error: <>"),
        "b",
        "fail",
        REACH,
        ([], ["unreachable-agent"]),
    ),
    "routing.defaults": Case(
        PAIR + "routing: {defaults: <>}\n",
        "{a: b}",
        "{a: a}",
        decided("a", "Hm."),
        (("hand_over", "b"), ("hand_over", "a")),
    ),
    "routing.agent_behaviors": Case(
        PAIR + f"routing: {{signals: {{a: [{NEXT}]}}, agent_behaviors: <>}}\n",
        "{a: {is_terminal: true}}",
        "{b: {is_terminal: true}}",
        because("a", "Hm."),
        ("terminal_agent", "no_signal"),
    ),
    "routing.agent_behaviors.*.wait_for_signal": Case(
        a_behavior("wait_for_signal: <>"), "true", "false", because("a", "Hm."), ("wait_for_signal", "no_signal")
    ),
    "routing.agent_behaviors.*.auto_route": Case(a_behavior("auto_route: <>"), "true", "false", is_held, (False, True)),
    "routing.agent_behaviors.*.is_terminal": Case(
        a_behavior("is_terminal: <>"), "true", "false", because("a", "Hm."), ("terminal_agent", "no_signal")
    ),
    "routing.parallel_groups": Case(
        a_route('signal: "[FORK]", type: parallel, target: g').replace("]}}", "]}, parallel_groups: <>}"),
        "{g: {agents: [b], next_agent: b}}",
        "{h: {agents: [b], next_agent: b}}",
        codes("unknown-target"),
        ([], ["unknown-target"]),
    ),
    "routing.parallel_groups.*.agents": Case(a_group("agents: <>"), "[b]", "[a]", REACH, ([], ["unreachable-agent"])),
    "routing.parallel_groups.*.timeout_seconds": Case(
        a_group("agents: [b], timeout_seconds: <>"),
        "3600",
        "3600.5",
        codes("timeout-beyond-run"),
        ([], ["timeout-beyond-run"]),
    ),
    "routing.parallel_groups.*.next_agent": Case(
        a_group("agents: [a], next_agent: <>"), "b", "a", REACH, ([], ["unreachable-agent"])
    ),
    # Sub-crews, delegation, subscriptions
    "sub_crews": Case(
        CALLING.replace(", <>", "").replace("{kid: {config_path: kid}, kid2: {config_path: kid}}", "<>"),
        "{kid: {config_path: kid}}",
        "{kit: {config_path: kid}}",
        codes("unknown-sub-crew"),
        ([], ["unknown-sub-crew"]),
    ),
    "sub_crews.*.config_path": Case(
        ALONE + "sub_crews: {kid: {config_path: <>}}\n", "kid", "cat", codes("bad-path"), ([], ["bad-path"])
    ),
    "delegation": Case(
        PAIR + "settings: {on_no_signal: complete}\ndelegation: <>\n",
        "{children: {a: [b]}}",
        "{children: {a: [b]}, root: b}",
        codes("delegation-tree"),
        ([], ["delegation-tree"]),
    ),
    "delegation.root": Case(
        a_delegation("root: <>, children: {a: [b, c]}"),
        "a",
        "b",
        codes("delegation-tree"),
        ([], ["delegation-tree"]),
    ),
    "delegation.children": Case(
        a_delegation("children: <>"), "{a: [b, c]}", "{a: [b]}", REACH, ([], ["unreachable-agent"])
    ),
    "delegation.max_depth": Case(
        a_delegation("children: {a: [b], b: [c]}, max_depth: <>"),
        "2",
        "1",
        codes("delegation-tree"),
        ([], ["delegation-tree"]),
    ),
    "subscriptions": Case(
        PAIR + "settings: {on_no_signal: complete}\nsubscriptions: <>\n",
        "{b: [{pattern: x, silent: false}]}",
        "{a: [{pattern: x, silent: false}]}",
        REACH,
        ([], ["unreachable-agent"]),
    ),
    "subscriptions.*[].pattern": Case(
        ALONE + "subscriptions: {a: [{pattern: x:y}, {pattern: <>}]}\n",
        "x:*",
        "x:y",
        codes("bad-value"),
        ([], ["bad-value"]),
    ),
    "subscriptions.*[].silent": Case(
        PAIR + "settings: {on_no_signal: complete}\nsubscriptions: {b: [{pattern: x, silent: <>}]}\n",
        "false",
        "true",
        REACH,
        ([], ["unreachable-agent"]),
    ),
    # Settings
    "settings": Case(
        PAIR_NEXT + "settings: <>\n",
        "{on_no_signal: complete}",
        "{on_no_signal: fail}",
        decided("a", "Hm."),
        (("end", ""), (None, "fail")),
    ),
    "settings.model": Case(
        ALONE + "settings: {model: <>}\n",
        '"openai:one"',
        '"openai:two"',
        lambda loaded: loaded.crew.agents[0].primary.name if loaded.crew and loaded.crew.agents[0].primary else "",
        ("openai:one", "openai:two"),
    ),
    "settings.config_mode": Case(
        ALONE + "settings: {config_mode: <>}\n",
        "permissive",
        "strict",
        lambda loaded: len(codes("missing-setting")(loaded)),
        (0, 20),
    ),
    "settings.signal_registration": Case(
        a_route('signal: "[GO]", target: b') + "settings: {signal_registration: <>}\n",
        "inferred",
        "required",
        lambda loaded: loaded.is_sound,
        (True, False),
    ),
    "settings.signal_position": Case(
        PAIR_NEXT + "settings: {signal_position: <>}\n",
        "anywhere",
        "last_line",
        because("a", "[NEXT]\nI mean it."),
        ("signal", "no_signal"),
    ),
    "settings.on_no_signal": Case(
        PAIR_NEXT + "settings: {on_no_signal: <>}\n",
        "nudge",
        "complete",
        decided("a", "Hm."),
        ((None, "nudge"), ("end", "")),
    ),
    "settings.on_conflict": Case(
        PAIR + f'routing: {{signals: {{a: [{NEXT}, {{signal: "[END]"}}]}}}}\nsettings: {{on_conflict: <>}}\n',
        "priority",
        "fail",
        decided("a", "[NEXT] [END]"),
        (("end", ""), (None, "fail")),
    ),
    "settings.timeout_seconds": Case(
        a_group("agents: [b], timeout_seconds: 60") + "settings: {timeout_seconds: <>}\n",
        "60",
        "59",
        codes("timeout-beyond-run"),
        ([], ["timeout-beyond-run"]),
    ),
    "settings.parallel_timeout_seconds": Case(
        a_group("agents: [b]") + "settings: {timeout_seconds: 60, parallel_timeout_seconds: <>}\n",
        "60",
        "61",
        codes("timeout-beyond-run"),
        ([], ["timeout-beyond-run"]),
    ),
}

COVERED |= RUNS | SERVED

LEGACY: tuple[str, ...] = (
    "agents[].cost_alert_threshold",
    "agents[].enforce_cost_limits",
    "agents[].enforce_quotas",
    "agents[].max_cost_per_day",
    "agents[].max_tokens_per_call",
    "agents[].max_tokens_per_day",
    "agents[].logging",
    "agents[].memory_limits",
    "routing.agent_behaviors.*.parallel_execution",
    "settings.client_cache_ttl_minutes",
    "settings.graceful_shutdown_check_millis",
    "settings.max_agent_id_length",
    "settings.max_daily_memory_gb",
    "settings.max_memory_mb",
    "settings.max_stored_requests",
    "settings.memory_alert_percent",
    "settings.min_agent_id_length",
    "settings.min_tool_timeout_millis",
    "settings.request_store_cleanup_minutes",
    "settings.stream_buffer_size",
    "settings.stream_chunk_timeout_millis",
    "tasks",
)


# The table itself


def test_every_key_of_the_schema_is_in_exactly_one_place() -> None:
    places = [*COVERED, *LEGACY]
    assert sorted(places) == sorted(KEYS)


def test_agent_files_have_the_keys_of_agents_in_place() -> None:
    in_place = [name.removeprefix("agents[].") for name in KEYS if name.startswith("agents[].")]
    assert [name for name, _ in keys_below(AGENT)] == in_place


# COVERED

IN_PLACE, IN_A_FILE = "in place", "in a file"
COVERED_FORMS = [
    pytest.param(name, form, id=f"{name} {form}" if name.startswith("agents[].") else name)
    for name in COVERED
    for form in ((IN_PLACE, IN_A_FILE) if name.startswith("agents[].") else (IN_PLACE,))
]


@pytest.mark.parametrize("name", COVERED)
def test_the_two_crews_of_a_covered_key_differ_in_that_key_alone(name: str) -> None:
    case = COVERED[name]
    assert case.crew.count("<>") == 1
    one, other = (yaml.safe_load(case.crew.replace("<>", value)) for value in (case.one, case.other))
    paths = list(_differences(one, other))
    assert paths
    assert all(_is_below(path, name) for path in paths), paths


@pytest.mark.parametrize(("name", "form"), COVERED_FORMS)
def test_a_covered_key_makes_a_difference(tmp_path: Path, name: str, form: str) -> None:
    case = COVERED[name]
    seen = tuple(
        case.look(_read(tmp_path / str(n), yaml.safe_load(case.crew.replace("<>", value)), form))
        for n, value in enumerate((case.one, case.other))
    )
    assert seen == case.seen
    assert seen[0] != seen[1]


# Wrong values and LEGACY, all tried on one crew that has a place for every key

FULL: dict[str, Any] = yaml.safe_load("""\
version: "2.0"
name: full
entry_point: a
agents:
  - id: a
    primary: {model: m, provider: openai}
    backup: {model: m, provider: openai}
    cost_limits: {}
    error_limits: {}
  - {id: b, is_terminal: true}
signals:
  - {name: "[GO]", behavior: sub_crew}
routing:
  signals:
    a:
      - {signal: "[GO]", target_crew: kid, context: {}}
      - {signal: "[FORK]", type: parallel, target: g}
      - {signal: "[END]"}
  agent_behaviors: {a: {}}
  parallel_groups: {g: {agents: [b]}}
sub_crews: {kid: {config_path: kid, settings: {}}}
delegation: {children: {a: [b]}}
subscriptions: {a: [{pattern: "x:y"}]}
settings: {}
""")


def test_the_crew_that_all_values_are_tried_on_is_sound(tmp_path: Path) -> None:
    assert _read(tmp_path, FULL).problems == ()


@pytest.mark.parametrize("name", COVERED)
def test_a_wrong_value_is_refused_where_it_stands(tmp_path: Path, name: str) -> None:
    for n, value in enumerate(_wrong_values(KEYS[name].shape)):
        loaded = _read(tmp_path / str(n), _with_value(name, value))
        refused = [problem.path for problem in loaded.problems if problem.code == "bad-value"]
        assert refused == [_written(_path(name))], value
        assert not loaded.is_sound


@pytest.mark.parametrize("name", LEGACY)
@pytest.mark.parametrize("value", [7, "text", None, [{"a": 1}]], ids=str)
def test_a_legacy_key_is_a_note_whatever_it_holds(tmp_path: Path, name: str, value: Any) -> None:
    loaded = _read(tmp_path, _with_value(name, value))
    assert [(problem.code, problem.severity, problem.path) for problem in loaded.problems] == [
        ("legacy-key", Severity.NOTE, _written(_path(name)))
    ]
    assert KEYS[name].legacy in loaded.problems[0].message
    assert loaded.is_sound


# How it is done


def _read(folder: Path, document: dict[str, Any], form: str = IN_PLACE) -> LoadedCrew:
    (folder / "kid").mkdir(parents=True)
    (folder / "kid" / "crew.yaml").write_text(CHILD, encoding="utf-8")
    (folder / "typed").mkdir()
    (folder / "typed" / "crew.yaml").write_text(TYPED_CHILD, encoding="utf-8")
    if form == IN_A_FILE:
        (folder / "agents").mkdir()
        for agent in document["agents"]:
            (folder / "agents" / f"{agent['id']}.yaml").write_text(json.dumps(agent), encoding="utf-8")
        document = {**document, "agents": [agent["id"] for agent in document["agents"]]}
    (folder / "crew.yaml").write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML, and quick to write
    return read_crew(folder)


def _differences(one: Any, other: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Where two documents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from _differences(one.get(key), other.get(key), (*path, key))
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for n, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, (*path, n))
    elif one != other:
        yield path


def _is_below(path: tuple[Step, ...], name: str) -> bool:
    """Whether a path is that of a key, or of something in its value."""
    pattern = re.escape(name).replace(r"\[\]", r"\[\d+\]").replace(r"\*", r"[^.\[]+")
    return re.match(rf"{pattern}(\Z|[.\[])", _written(path)) is not None


def _written(path: tuple[Step, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _path(name: str) -> tuple[Step, ...]:
    """Where FULL has a place for a key: the first item of lists, the only name of mappings."""
    steps: list[Step] = []
    node: Any = FULL
    for part in re.findall(r"\[\]|[^.\[\]]+", name):
        step: Step = 0 if part == "[]" else next(iter(node)) if part == "*" else part
        steps.append(step)
        node = node[step] if isinstance(step, int) else (node or {}).get(step)
    return tuple(steps)


def _with_value(name: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(FULL)
    *way, last = _path(name)
    holder: Any = document
    for step in way:
        holder = holder[step]
    holder[last] = value
    return document


def _wrong_values(shape: Shape) -> tuple[Any, ...]:
    match shape:
        case Text(options=options) if options:
            return ("nonsense", 1, ["one"], {"one": 1})
        case Text(loose=True):
            return (["one"], {"one": 1})
        case Text():
            return (1, True, ["one"], {"one": 1})
        case SignalText():
            return (1, True, None, ["END"], {"one": 1})
        case SchemaText():
            return (1, True, None, ["one"])
        case Number():
            below = shape.least if shape.above else shape.least - 1
            return (below, shape.most + 1, "much", True, None, [1], *([1.5] if shape.whole else []))
        case Flag():
            return ("perhaps", 1, None, [True])
        case Share():
            return ("some", -1, 1.5, True, None, *([] if shape.all_allowed else ["all"]))
        case _:
            return _wrong_containers(shape)


def _wrong_containers(shape: Shape) -> tuple[Any, ...]:
    match shape:
        case WordOrNumber():
            return ("nonsense", *_wrong_values(shape.number))
        case JsonMap():
            return ("text", 1, True, None, ["one"])
        case ListOf() | MapOf() | Section():
            return ("text", 1, True)
        case _:
            raise NotImplementedError(shape)
