"""The document that a call of `Crew` makes: the same keys as a file."""

from interlock import END, Agent, Broadcast, Crew, External, Group, Pause, Route, SubCrew
from interlock.crew.keys import CREW
from interlock.crew.nodes import Mapping, Node, Sequence
from interlock.crew.shapes import Either, ListOf, MapOf, Section, Shape

Keys = set[tuple[str, str]]


def all_keys(shape: Shape) -> Keys:
    match shape:
        case Section():
            inner = (all_keys(key.shape) for key in shape.keys)
            return {(shape.title, key.name) for key in shape.keys if not key.legacy}.union(*inner)
        case ListOf(item=inner) | MapOf(value=inner) | Either(section=inner):
            return all_keys(inner)
        case _:
            return set()


def keys_in(node: Node | None, shape: Shape) -> Keys:
    match shape, node:
        case Section(), Mapping():
            found = {(shape.title, key.name) for key in shape.keys if node.get(key.name) is not None}
            return found.union(*(keys_in(node.get(key.name), key.shape) for key in shape.keys))
        case ListOf(), Sequence():
            return set[tuple[str, str]]().union(*(keys_in(item, shape.item) for item in node.items))
        case MapOf(), Mapping():
            return set[tuple[str, str]]().union(*(keys_in(inner, shape.value) for _, _, inner in node))
        case Either(), Mapping():
            return keys_in(node, shape.section)
        case _:
            return set()


LIMITS = {
    "max_tokens_per_call": 9000,
    "max_tokens_per_day": 90_000,
    "max_cost_per_day_usd": 5.0,
    "alert_threshold": 0.5,
    "block_on_cost_exceed": True,
    "enforce": True,
    "input_token_price_per_million": 0,
    "output_token_price_per_million": 0,
    "cache_read_token_price_per_million": 0,
    "cache_write_token_price_per_million": 0,
}
CAPS = {
    "max_handoffs": 3,
    "timeout_seconds": 60,
    "max_calls_per_run": 5,
    "max_tokens_per_run": 5000,
    "max_cost_per_run": 1,
}


def crew_with_every_key() -> Crew:
    library = Crew("library", [Agent("librarian")], output=int)
    group = Group(
        "student",
        name="class",
        then="teacher",
        wait_for_all=False,
        timeout_seconds=30,
        on_error="fail",
        description="the class",
    )
    call = SubCrew(
        library,
        return_to="teacher",
        input_template="{{.Input}}",
        on_error="return",
        context={"history": "all", "return_history": 2},
        priority=40,
        description="look it up",
    )
    teacher = Agent(
        "teacher",
        "Teach.",
        name="Teacher",
        role="teacher",
        description="teaches",
        backstory="old",
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        primary={"model": "m", "provider": "ollama", "provider_url": "http://localhost:11434/v1"},
        backup={"model": "ollama:m"},
        tools=["memory_read"],
        handoff_targets=["student"],
        is_terminal=True,
        cost_limits=LIMITS,
        error_limits={"max_consecutive": 3, "max_per_day": 9, "block_on_error_exceed": True, "enforce": True},
        signals=["[ASK]", "[SEE]", "[HOLD]", "[TELL]", "[SEND]", "[PAIR]", "[END]"],
        output=int,
        wait_for_signal=True,
        auto_route=False,
        default="student",
        on={
            "[ASK]": Route(group, priority=60, description="ask the class", takes=float, type="parallel"),
            "[SEE]": call,
            "[HOLD]": Pause("teacher"),
            "[TELL]": Broadcast("student"),
            "[SEND]": External(pause=True),
            "[PAIR]": Group("student"),
            "[END]": END,
        },
    )
    student = Agent(
        "student",
        model="m",
        provider="openai-compatible",
        provider_url="http://localhost:11434/v1",
        reasoning="low",
        cache="on",
        max_tokens=900,
        seed=7,
        stop=["\n\n"],
        parallel_tool_calls=False,
        service_tier="flex",
        extra={"verbosity": "low", "tags": [1, None]},
        cost_limits=LIMITS,
        on={"[NEXT]": teacher},
    )
    return Crew(
        "school",
        [teacher, student],
        entry=teacher,
        description="a school",
        version="2.0",
        signals=[SIGNAL],
        routing={"agent_behaviors": {"teacher": {"is_terminal": True, "description": "in charge"}}},
        sub_crews={"library": {"crew": library, "description": "knows", "settings": CAPS, "output": int}},
        delegation=DELEGATION,
        subscriptions={student: [{"pattern": "bell:*", "silent": False}]},
        settings=every_setting(),
        output={"type": "number"},
    )


SIGNAL = {
    "name": "[ASK]",
    "description": "ask",
    "behavior": "route",
    "default_target": "class",
    "valid_targets": ["class"],
    "allow_all_agents": True,
    "allowed_agents": ["teacher"],
    "priority": 60,
    "example": "What is this? [ASK]",
    "deprecated_msg": "Use [NEXT] instead",
    "required": True,
    "max_occurs": 9,
}
DELEGATION = {
    "root": "teacher",
    "children": {"teacher": ["student"]},
    "select": "all",
    "report_check": "rules",
    "ack_timeout_seconds": 30,
    "answer_timeout_seconds": 60,
    "min_report_chars": 2,
    "max_follow_ups": 1,
    "max_depth": 2,
}


def every_setting() -> dict[str, str | int | float | bool]:
    """A value for each setting: its default, or a number that all of them allow."""
    words = {"model": "ollama:m", "organization": "school"}
    defaults = Crew("plain", [Agent("a")]).settings
    section = next(key.shape for key in CREW.keys if key.name == "settings")
    assert isinstance(section, Section)
    names = [key.name for key in section.keys if not key.legacy]
    found = {name: words.get(name, getattr(defaults, name, None)) for name in names}
    return {name: value if value is not None else 1 for name, value in found.items()}


def test_every_key_of_a_file_has_a_way_in_python() -> None:
    crew = crew_with_every_key()
    assert all_keys(CREW) - keys_in(crew.tree().root, CREW) == set()
