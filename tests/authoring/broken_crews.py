"""The crews of examples/broken, written in Python. A comment `# <- code` marks the line that a problem must name."""

from collections.abc import Callable
from pathlib import Path

from interlock import END, Agent, Crew, Group, Route, SubCrew

BROKEN: dict[str, Callable[[], Crew]] = {}
FILES = Path("examples/broken").resolve()


def broken(build: Callable[[], Crew]) -> Callable[[], Crew]:
    BROKEN[build.__name__.replace("_", "-")] = build
    return build


@broken
def agent_file() -> Crew:
    return Crew(
        "agent-file",
        [
            Agent("teacher", handoff_targets=["student"]),
            "student",  # type: ignore[list-item]  # <- agent-file
        ],
    )


@broken
def ambiguous_signals() -> Crew:
    teacher = Agent(
        "teacher",
        on={
            "[GO_ON]": "student",
            "[Go on]": END,  # <- ambiguous-signals
        },
    )
    return Crew("ambiguous-signals", [teacher, Agent("student", is_terminal=True)])


@broken
def bad_format() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        on={"END!": END},  # <- bad-format
    )
    return Crew("bad-format", [teacher])


@broken
def bad_path() -> Crew:
    teacher = Agent(
        "teacher",
        on={
            "[RESEARCH]": SubCrew("../../library"),  # <- bad-path
            "[END]": END,
        },
    )
    return Crew("bad-path", [teacher])


@broken
def bad_value() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        temperature="warm",  # type: ignore[arg-type]  # <- bad-value
    )
    return Crew("bad-value", [teacher])


@broken
def crew_cycle() -> Crew:
    """Crews in Python cannot contain each other; a file that one of them calls can."""
    teacher = Agent("teacher", on={"[RESEARCH]": SubCrew(FILES / "crew-cycle.yaml"), "[END]": END})
    return Crew("crew-cycle", [teacher])


@broken
def delegation_tree() -> Crew:
    return Crew(
        "delegation-tree",
        [Agent("teacher", is_terminal=True), Agent("student"), Agent("parent")],
        delegation={
            "children": {
                "teacher": ["student", "parent"],
                "parent": ["student"],  # <- delegation-tree
            }
        },
    )


@broken
def deprecated_signal() -> Crew:
    return Crew(
        "deprecated-signal",
        [
            Agent(
                "teacher",
                on={
                    "[FINISH]": END,  # <- deprecated-signal
                    "[END]": END,
                },
            )
        ],
        signals=[{"name": "[FINISH]", "behavior": "terminate", "deprecated_msg": "Use [END] instead"}],
    )


@broken
def differing_return() -> Crew:
    library = Crew("library", [Agent("librarian")])
    teacher = Agent(
        "teacher",
        on={
            "[RESEARCH]": SubCrew(library),
            "[READ]": SubCrew(library, return_to="student"),  # <- differing-return
            "[END]": END,
        },
    )
    return Crew("differing-return", [teacher, Agent("student", is_terminal=True)])


@broken
def duplicate_key() -> Crew:
    teacher = Agent(
        "teacher",
        on={
            "[NEXT]": "teacher",
            "[END]": END,
            "[NEXT]": END,  # noqa: F601  # <- duplicate-key
        },
    )
    return Crew("duplicate-key", [teacher])


@broken
def duplicate_signal() -> Crew:
    """A dictionary has a mark once, so that only definitions can be there twice."""
    return Crew(
        "duplicate-signal",
        [Agent("teacher", on={"[NEXT]": "student"}), Agent("student", is_terminal=True)],
        signals=[
            {"name": "[NEXT]"},
            {"name": "[NEXT]"},  # <- duplicate-signal
        ],
    )


@broken
def emitter_not_allowed() -> Crew:
    teacher = Agent(
        "teacher",
        on={"[GRADE]": "student"},  # <- emitter-not-allowed
    )
    return Crew(
        "emitter-not-allowed",
        [teacher, Agent("student", is_terminal=True)],
        signals=[{"name": "[GRADE]", "behavior": "route", "allowed_agents": ["student"]}],
    )


@broken
def empty_group() -> Crew:
    teacher = Agent(
        "teacher",
        on={
            "[QUESTION]": Group(name="class", then="teacher"),  # <- empty-group
            "[END]": END,
        },
    )
    return Crew("empty-group", [teacher])


@broken
def invalid_target() -> Crew:
    teacher = Agent(
        "teacher",
        on={
            "[COMPLAIN]": "student",  # <- invalid-target
            "[NEXT]": "head",
        },
    )
    return Crew(
        "invalid-target",
        [teacher, Agent("student", is_terminal=True), Agent("head", is_terminal=True)],
        signals=[{"name": "[COMPLAIN]", "behavior": "route", "valid_targets": ["head"]}],
    )


@broken
def legacy_key() -> Crew:
    return Crew(
        "legacy-key",
        [Agent("teacher", is_terminal=True)],
        settings={"max_memory_mb": 512},  # <- legacy-key
    )


@broken
def limit_below_prompt() -> Crew:
    teacher = Agent(
        "teacher",
        "You are a teacher. Ask one question at a time, wait for the answer, and mark it with care.",
        is_terminal=True,
        cost_limits={"max_tokens_per_call": 10},  # <- limit-below-prompt
    )
    return Crew("limit-below-prompt", [teacher])


@broken
def misplaced_key() -> Crew:
    teacher = Agent(
        "teacher",
        on={"[END]": {"pause": True}},  # type: ignore[dict-item]  # <- misplaced-key
    )
    return Crew("misplaced-key", [teacher])


@broken
def missing_api_key() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        model="openai:gpt-4o",  # <- missing-api-key
    )
    return Crew("missing-api-key", [teacher])


@broken
def missing_key() -> Crew:
    return Crew(
        "missing-key",
        [Agent("teacher", is_terminal=True)],
        signals=[{"behavior": "route"}],  # <- missing-key
    )


@broken
def missing_package() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        model="xai:grok-4",  # <- missing-package missing-api-key
    )
    return Crew("missing-package", [teacher])


@broken
def missing_price() -> Crew:
    letters = Crew("letters", [Agent("writer", is_terminal=True, model="openai-compatible:other-model")])
    teacher = Agent(
        "teacher",
        model="openai-compatible:house-model",  # <- missing-price
        on={
            "[LETTER]": SubCrew(letters),  # <- missing-price
            "[END]": END,
        },
    )
    return Crew("missing-price", [teacher], settings={"max_cost_per_run": 1})


@broken
def missing_setting() -> Crew:
    return Crew(
        "missing-setting",
        [Agent("teacher", is_terminal=True)],
        settings={"config_mode": "strict"},  # <- missing-setting
    )


@broken
def name_clash() -> Crew:
    return Crew(
        "name-clash",
        [Agent("teacher", on={"[NEXT]": "student"}), Agent("student", is_terminal=True)],
        routing={
            "parallel_groups": {
                "student": Group("student", then="teacher"),  # <- name-clash
            }
        },
    )


@broken
def no_way_on() -> Crew:
    return Crew(
        "no-way-on",
        [
            Agent("teacher", on={"[QUESTION]": "student", "[END]": END}),
            Agent("student"),  # <- no-way-on
        ],
    )


@broken
def not_constrained() -> Crew:
    teacher = Agent(
        "teacher",
        model="llama.cpp:m",  # <- not-constrained
        tools=["memory_read"],
        on={"[END]": END},
    )
    return Crew("not-constrained", [teacher], settings={"signal_mode": "constrained"})


@broken
def required_signal() -> Crew:
    return Crew(
        "required-signal",
        [Agent("teacher", is_terminal=True)],
        signals=[
            {
                "name": "[SIGNED]",
                "behavior": "terminate",
                "required": True,  # <- required-signal
            }
        ],
    )


@broken
def timeout_beyond_run() -> Crew:
    group = Group(
        "student",
        name="class",
        then="teacher",
        timeout_seconds=90,  # <- timeout-beyond-run
    )
    teacher = Agent("teacher", on={"[QUESTION]": group, "[END]": END})
    return Crew("timeout-beyond-run", [teacher, Agent("student")], settings={"timeout_seconds": 60})


@broken
def too_deep() -> Crew:
    inner = Crew("level-11", [Agent("teacher", is_terminal=True)])
    for level in range(10, -1, -1):
        teacher = Agent("teacher", on={"[DEEPER]": SubCrew(inner, name="inner"), "[END]": END})  # <- too-deep
        inner = Crew(f"level-{level}", [teacher])
    return inner


@broken
def trap() -> Crew:
    return Crew(
        "trap",
        [
            Agent("teacher", on={"[QUESTION]": "student", "[END]": END}),
            Agent("student", on={"[ANSWER]": "marker"}),  # <- trap
            Agent("marker", on={"[RETRY]": "student"}),
        ],
    )


@broken
def unfilled_field() -> Crew:
    letters = Crew("letters", [Agent("writer", is_terminal=True)])
    clerk = Agent(
        "clerk",
        on={
            "[LETTER]": SubCrew(
                letters,
                input_template="To {{.SharedMemory.customer}}",  # <- unfilled-field
            ),
            "[END]": END,
        },
    )
    return Crew("unfilled-field", [clerk])


@broken
def unknown_agent() -> Crew:
    group = Group("student", "pupil", name="class", then="teacher")  # <- unknown-agent
    return Crew("unknown-agent", [Agent("teacher", on={"[QUESTION]": group, "[END]": END}), Agent("student")])


@broken
def unknown_field() -> Crew:
    teacher = Agent(
        "teacher",
        "You are {{nmae}}.",  # <- unknown-field
        is_terminal=True,
    )
    return Crew("unknown-field", [teacher])


@broken
def unknown_key() -> Crew:
    return Crew(
        "unknown-key",
        [Agent("teacher", is_terminal=True)],
        settings={"max_handofs": 12},  # <- unknown-key
    )


@broken
def unknown_mark_in_prompt() -> Crew:
    teacher = Agent(
        "teacher",
        "When the lesson is over, say [FINISHED].",  # <- unknown-mark-in-prompt
        on={"[END]": END},
    )
    return Crew("unknown-mark-in-prompt", [teacher])


@broken
def unknown_provider() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        model="opnai:gpt-5",  # <- unknown-provider
    )
    return Crew("unknown-provider", [teacher])


@broken
def unknown_sub_crew() -> Crew:
    teacher = Agent(
        "teacher",
        on={
            "[RESEARCH]": SubCrew("library"),  # <- unknown-sub-crew
            "[END]": END,
        },
    )
    return Crew("unknown-sub-crew", [teacher])


@broken
def unknown_target() -> Crew:
    teacher = Agent(
        "teacher",
        on={
            "[QUESTION]": "studnet",  # <- unknown-target
            "[END]": END,
        },
    )
    return Crew("unknown-target", [teacher, Agent("student", on={"[ANSWER]": teacher})])


@broken
def unknown_tool() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        tools=["blackboard"],  # <- unknown-tool
    )
    return Crew("unknown-tool", [teacher])


@broken
def unlisted_host() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        model="openai-compatible:m",
        provider_url="https://models.example.org/v1",  # <- unlisted-host
    )
    return Crew("unlisted-host", [teacher])


@broken
def unsupported_setting() -> Crew:
    teacher = Agent(
        "teacher",
        is_terminal=True,
        model="llama.cpp:m",
        service_tier="flex",  # <- unsupported-setting
    )
    return Crew("unsupported-setting", [teacher])


@broken
def unreachable_agent() -> Crew:
    return Crew(
        "unreachable-agent",
        [
            Agent("teacher", is_terminal=True),
            Agent("archivist", is_terminal=True),  # <- unreachable-agent
        ],
    )


@broken
def unregistered_signal() -> Crew:
    """A mark that leads somewhere is declared by that; one without a target is not."""
    teacher = Agent(
        "teacher",
        is_terminal=True,
        on={"[HOMEWORK]": Route()},  # <- unregistered-signal
    )
    return Crew("unregistered-signal", [teacher])


@broken
def unused() -> Crew:
    group = Group("student", name="class", then="teacher")
    return Crew(
        "unused",
        [Agent("teacher", on={"[QUESTION]": group, "[END]": END}), Agent("student")],
        routing={
            "parallel_groups": {
                "homework": Group("student"),  # <- unused
            }
        },
    )


@broken
def wrong_target() -> Crew:
    teacher = Agent(
        "teacher",
        on={"[END]": "student"},  # <- wrong-target
    )
    return Crew("wrong-target", [teacher, Agent("student", is_terminal=True)])


@broken
def bad_schema() -> Crew:
    return Crew(
        "bad-schema",
        [Agent("clerk", is_terminal=True)],
        output={"type": "object", "propertes": {"amount": {"type": "number"}}},  # <- bad-schema
    )


@broken
def wrong_output() -> Crew:
    cashier = Agent("cashier", is_terminal=True)
    takes = {"type": "object", "required": ["order"]}
    text = {"type": "object", "properties": {"amount": {"type": "string"}}, "required": ["amount"]}
    amount = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
    clerk = Agent(
        "clerk",
        output=text,  # <- wrong-output
        on={
            "[PAY]": Route(cashier, takes=takes),  # <- wrong-output
            "[END]": END,
        },
    )
    return Crew("wrong-output", [clerk, cashier], output=amount)
