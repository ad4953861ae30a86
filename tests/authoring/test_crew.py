"""`Crew`: sound, or `UnsoundCrew` with every problem at its line of code."""

import sys
from pathlib import Path

import pytest

from interlock import (
    END,
    Agent,
    Broadcast,
    Crew,
    External,
    Group,
    Interlock,
    Pause,
    Problem,
    Route,
    SubCrew,
    UnreadableCrew,
    UnsoundCrew,
    UsageError,
    load_crew,
    tool,
)
from interlock.crew.definition import GroupDefinition
from interlock.crew.host import Host
from interlock.runtime.stored_crews import as_stored_form

HELLO = "src/interlock/templates/hello"


def line_here() -> int:
    return sys._getframe(1).f_lineno


def problems_of(*agents: object, **given: object) -> list[Problem]:
    with pytest.raises(UnsoundCrew) as refused:
        Crew("crew", agents, **given)  # type: ignore[arg-type]
    return [problem for problem in refused.value.problems if problem.severity == "error"]


def codes_of(*agents: object, **given: object) -> list[str]:
    return sorted({problem.code for problem in problems_of(*agents, **given)})


def find_order(order: str) -> str:
    """Find an order by its number."""
    return f"order {order}"


def desk() -> Crew:
    """The crew at the top of section 14 of the design."""
    letters = Crew("letters", [Agent("writer", "Write the letter.", is_terminal=True)])
    clerk = Agent(
        "clerk",
        "Help customers with their orders.",
        model="openai:gpt-5",
        tools=[find_order],
        on={"[REFUND]": "cashier", "[INSPECT]": Group("stock", "workshop", then="cashier"), "[DONE]": END},
    )
    cashier = Agent(
        "cashier",
        "Pay what is due.",
        on={
            "[WAIT]": Pause(),
            "[PAID]": Route("clerk", priority=60),
            "[LETTER]": SubCrew(letters, return_to="clerk"),
        },
    )
    return Crew("desk", [clerk, cashier, Agent("stock"), Agent("workshop")], settings={"max_handoffs": 8})


def test_a_crew_has_what_its_file_would_have() -> None:
    crew = desk()
    assert (crew.name, crew.entry, crew.version, crew.description) == ("desk", "clerk", "2.0", "")
    assert [agent.id for agent in crew.agents] == ["clerk", "cashier", "stock", "workshop"]
    assert crew.settings.max_handoffs == 8
    assert crew.settings.max_rounds == 10
    assert {route.signal: (str(route.behavior), route.target) for route in crew.definition.routes["cashier"]} == {
        "[WAIT]": ("pause", ""),
        "[PAID]": ("route", "clerk"),
        "[LETTER]": ("sub_crew", ""),
    }
    assert crew.definition.routes["cashier"][1].priority == 60
    assert crew.definition.groups == {
        "clerk-INSPECT": GroupDefinition(
            name="clerk-INSPECT", agents=("stock", "workshop"), next_agent="cashier", unnamed=False
        )
    }
    assert "desk" in repr(crew)


def test_functions_come_with_the_crew_and_names_go_into_the_definition() -> None:
    crew = desk()
    assert crew.agents[0].tools == ("find_order",)
    assert {name: given.function for name, given in crew.functions.items()} == {"find_order": find_order}


def test_no_model_is_a_warning() -> None:
    found = [(problem.code, problem.severity) for problem in Crew("c", [Agent("a")]).warnings]
    assert found == [("no-model", "warning")]


async def test_a_run_without_a_model_is_refused(tmp_path: Path) -> None:
    async with Interlock(tmp_path) as box:
        with pytest.raises(UsageError, match="model"):
            await box.start(Crew("c", [Agent("a")]), "go")


async def test_a_crew_and_an_agent_run(tmp_path: Path) -> None:
    async with Interlock(tmp_path, models=lambda _request: "done [END]") as box:
        for started in (Crew("c", [Agent("a", on={"[END]": END})]), Agent("b", on={"[END]": END})):
            run = await box.start(started, "go")
            result = await run.result()
            assert (result.status, result.reason) == ("completed", "signal:[END]")


async def test_the_agent_that_does_not_exist_is_refused_whichever_way(tmp_path: Path) -> None:
    """Finding 1.16: `box.start` of an unchecked crew with an unknown agent ran for ever."""
    with pytest.raises(UnsoundCrew):
        Crew("ghostly", [Agent("a", default="ghost")])
    with pytest.raises(UnsoundCrew):
        Crew("ghostly", [Agent("a", on={"[NEXT]": "ghost"})])
    with pytest.raises(UnsoundCrew):
        Crew.from_dict(
            {
                "version": "2.0",
                "name": "ghostly",
                "entry_point": "a",
                "agents": [{"id": "a"}],
                "routing": {"defaults": {"a": "ghost"}},
            }
        )
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: ghostly\nentry_point: a\nagents: [{id: a, handoff_targets: [ghost]}]\n'
    )
    with pytest.raises(UnsoundCrew):
        Crew.from_yaml(tmp_path)
    with pytest.raises(UnsoundCrew):
        _ = Agent("a", default="ghost").definition


def test_all_problems_come_at_once_each_with_its_line() -> None:
    first = line_here() + 1
    problems = problems_of(
        Agent("a", temperature="warm", on={"[X]": "nobody", "END": END, "[NEXT]": None}),  # type: ignore[arg-type, dict-item]
        Agent("a", role={1, 2}, tools=3),  # type: ignore[arg-type]
        settings={"max_handofs": 3},
        entry="ghost",
    )
    assert {(problem.code, problem.line - first) for problem in problems} == {
        ("bad-value", 1),  # temperature, and the mark that leads to None
        ("unknown-target", 1),
        ("bad-format", 1),
        ("name-clash", 2),
        ("bad-value", 2),
        ("unknown-key", -first + CALL_IN_PROBLEMS_OF),
        ("unknown-agent", -first + CALL_IN_PROBLEMS_OF),
    }
    assert {problem.file for problem in problems} == {__file__}
    assert all(problem.fix for problem in problems)


CALL_IN_PROBLEMS_OF = problems_of.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"id": 3}, "bad-value"),
        ({"id": ""}, "bad-value"),
        ({"id": "not an id"}, "bad-value"),
        ({"prompt": 5}, "bad-value"),
        ({"role": object()}, "bad-value"),
        ({"role": "\ud800"}, "bad-value"),
        ({"top_k": 10**30}, "bad-value"),
        ({"top_k": float("inf")}, "bad-value"),
        ({"tools": [lambda: ""]}, "uncallable-tool"),
        ({"tools": ["nothing_of_this_name"]}, "unknown-tool"),
        ({"tools": find_order}, "bad-value"),
        ({"on": ["[END]"]}, "bad-value"),
        ({"on": {3: END}}, "bad-value"),
        ({"on": {"[END": END}}, "bad-format"),
        ({"on": {"[END]": object()}}, "bad-value"),
        ({"on": {"[END]": END, "[WRITE]": SubCrew(7)}}, "bad-value"),  # type: ignore[arg-type]
        ({"on": {"[END]": END, "[WRITE]": SubCrew("letters.py:crew")}}, "bad-path"),
        ({"on": {"[END]": END, "[WRITE]": SubCrew("no/such/folder")}}, "bad-path"),
        ({"on": {"[END]": END, "[ASK]": Broadcast("nobody")}}, "unknown-target"),
        ({"on": {"[END]": END, "[ASK]": External(pause="yes")}}, "bad-value"),  # type: ignore[arg-type]
        ({"on": {"[END]": END, "[ASK]": Pause("nobody")}}, "unknown-target"),
        ({"cost_limits": {"enforces": True}}, "unknown-key"),
        ({"primary": {"provider": "openai"}}, "missing-key"),
        ({"wait_for_signal": 1}, "bad-value"),
        ({"default": Agent("somebody")}, "unknown-agent"),
    ],
)
def test_a_wrong_value_is_a_problem_not_an_exception(given: dict[str, object], code: str) -> None:
    agent = Agent(**{"id": "a", **given})  # type: ignore[arg-type]
    assert code in codes_of(agent)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"name": 3}, "bad-value"),
        ({"agents": Agent("a")}, "bad-value"),
        ({"agents": []}, "missing-key"),
        ({"agents": [3]}, "bad-value"),
        ({"version": "3.0"}, "bad-value"),
        ({"settings": 3}, "bad-value"),
        ({"settings": {3.5: 1}}, "bad-value"),
        ({"signals": {"[X]": {}}}, "bad-value"),
        ({"routing": []}, "bad-value"),
        ({"routing": {"parallel_groups": {"g": Group("nobody")}}}, "unknown-agent"),
        ({"routing": {"nothing": {}}}, "unknown-key"),
        ({"sub_crews": 3}, "bad-value"),
        ({"sub_crews": {"x": 3}}, "bad-value"),
        ({"sub_crews": {"x": "no/such/crew"}}, "bad-path"),
        ({"sub_crews": {"x": {"description": "no crew"}}}, "missing-key"),
        ({"subscriptions": {"nobody": [{"pattern": "a:b"}]}}, "unknown-agent"),
        ({"delegation": {"children": {"a": ["nobody"]}}}, "unknown-agent"),
        ({"entry": Agent("other")}, "unknown-agent"),
    ],
)
def test_a_wrong_argument_of_a_crew_is_a_problem(given: dict[str, object], code: str) -> None:
    with pytest.raises(UnsoundCrew) as refused:
        Crew(**{"name": "c", "agents": [Agent("a", is_terminal=True)], **given})  # type: ignore[arg-type]
    assert code in {problem.code for problem in refused.value.problems}


def test_a_value_that_contains_itself_is_a_problem() -> None:
    ring: dict[str, object] = {}
    ring["inner"] = ring
    assert "unknown-key" in codes_of(Agent("a", is_terminal=True), settings=ring)


def test_an_unknown_argument_is_a_type_error() -> None:
    """Editors and type checkers know the names, and Python itself names the wrong one."""
    with pytest.raises(TypeError, match="modle"):
        Agent("a", modle="openai:gpt-5")  # type: ignore[call-arg]


def test_an_agent_of_another_crew_with_a_known_id_is_a_clash() -> None:
    other, own = Agent("b", is_terminal=True), Agent("b", is_terminal=True)
    assert codes_of(Agent("a", on={"[NEXT]": other}), own) == ["name-clash"]
    assert Crew("c", [Agent("a", on={"[NEXT]": own}), own]).entry == "a"


def test_two_functions_of_one_name_are_a_clash() -> None:
    def other() -> str:
        return ""

    other.__name__ = "find_order"
    assert codes_of(
        Agent("a", tools=[find_order], on={"[NEXT]": "b"}), Agent("b", is_terminal=True, tools=[other])
    ) == ["name-clash"]
    inner = Crew("inner", [Agent("x", tools=[other])])
    assert codes_of(Agent("a", tools=[find_order], on={"[GO]": SubCrew(inner), "[END]": END})) == ["name-clash"]
    both = [Agent("a", tools=[find_order], on={"[NEXT]": "b"}), Agent("b", is_terminal=True, tools=[find_order])]
    assert list(Crew("c", both).functions) == ["find_order"]


def test_a_function_with_the_name_of_a_built_in_tool_is_a_clash() -> None:
    def ask_user(question: str) -> str:
        return question

    assert codes_of(Agent("a", is_terminal=True, tools=[ask_user])) == ["name-clash"]


def test_tools_are_functions_names_and_declared_tools() -> None:
    @tool(idempotent=True)
    def refund(order: str) -> str:
        return order

    crew = Crew("c", [Agent("a", tools=[find_order, "house_tool", refund])], host=Host(tools=("house_tool",)))
    assert crew.agents[0].tools == ("find_order", "house_tool", "refund")
    assert crew.functions["refund"].idempotent
    assert list(crew.functions) == ["find_order", "refund"]


def test_a_group_without_options_returns_to_its_agent_as_parallel_targets_do() -> None:
    crew = Crew("c", [Agent("a", on={"[ASK]": Group("b"), "[END]": END}), Agent("b")])
    assert crew.definition.groups == {"a:[ASK]": GroupDefinition(name="a:[ASK]", agents=("b",), unnamed=True)}


def test_one_group_may_be_used_twice_and_another_of_its_name_may_not() -> None:
    def agents(second: Group) -> list[Agent]:
        first = Group("c", name="both", then="a")
        return [
            Agent("a", on={"[ASK]": first, "[NEXT]": "b", "[END]": END}),
            Agent("b", on={"[ASK]": second, "[END]": END}),
            Agent("c"),
        ]

    assert list(Crew("x", agents(Group("c", name="both", then="a"))).definition.groups) == ["both"]
    assert codes_of(*agents(Group("c", name="both", then="b"))) == ["name-clash"]


def test_a_sub_crew_may_be_a_path_beside_the_code(tmp_path: Path) -> None:
    Crew.from_yaml(HELLO).save(tmp_path / "greeters" / "hello")
    code = """
from interlock import END, Agent, Crew, SubCrew
crew = Crew("c", [Agent("a", on={"[GREET]": SubCrew("greeters/hello"), "[END]": END})])
"""
    file = tmp_path / "program.py"
    file.write_text(code)
    names: dict[str, object] = {}
    exec(compile(code, str(file), "exec"), names)
    crew = names["crew"]
    assert isinstance(crew, Crew)
    assert crew.definition.sub_crews["hello"].config_path == "greeters/hello"
    crew.save(tmp_path / "saved")
    assert as_stored_form(load_crew(tmp_path / "saved").definition).sha == as_stored_form(crew.definition).sha


def test_a_problem_of_a_file_that_is_called_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text('version: "2.0"\nname: x\nentry_point: ghost\nagents: [{id: a}]\n')
    (problem,) = problems_of(Agent("a", on={"[GO]": SubCrew(tmp_path), "[END]": END}))
    assert (problem.code, problem.file, problem.line) == ("unknown-agent", str(tmp_path / "crew.yaml"), 3)


def test_sub_crews_by_name_and_with_limits() -> None:
    inner = Crew("inner", [Agent("x")])
    by_name = Crew(
        "c", [Agent("a", on={"[GO]": SubCrew("helper"), "[END]": END})], sub_crews={"helper": {"crew": inner}}
    )
    assert by_name.definition.sub_crews["helper"].crew == inner.definition
    limited = Crew("c", [Agent("a", on={"[GO]": SubCrew(inner, settings={"max_handoffs": 2}), "[END]": END})])
    assert limited.definition.sub_crews["inner"].settings.max_handoffs == 2
    two = {
        "[GO]": SubCrew(inner, settings={"max_handoffs": 2}),
        "[AGAIN]": SubCrew(inner, settings={"max_handoffs": 3}),
    }
    assert codes_of(Agent("a", on={**two, "[END]": END})) == ["duplicate-key"]
    others = {"[GO]": SubCrew(inner), "[AGAIN]": SubCrew(Crew("inner", [Agent("y")]))}
    assert codes_of(Agent("a", on={**others, "[END]": END})) == ["name-clash"]


def test_from_dict_takes_the_keys_of_a_file_and_points_at_its_lines() -> None:
    data = {"version": "2.0", "name": "c", "entry_point": "a", "agents": [{"id": "a", "is_terminal": True}]}
    assert Crew.from_dict(data).definition == Crew("c", [Agent("a", is_terminal=True)]).definition
    line = line_here() + 1
    with pytest.raises(UnsoundCrew) as refused:
        Crew.from_dict(
            {
                "version": "2.0",
                "entry_point": "ghost",
                "agents": [{"id": "a", "is_terminal": "yes"}, "b"],
            }
        )
    found = {(problem.code, problem.line - line) for problem in refused.value.problems if problem.severity == "error"}
    assert found == {("unknown-agent", 4), ("bad-value", 5), ("agent-file", 5)}


@pytest.mark.parametrize("data", [None, [], "crew.yaml", {"version": "2.0"}])
def test_from_dict_of_anything_else_is_unsound(data: object) -> None:
    with pytest.raises(UnsoundCrew):
        Crew.from_dict(data)  # type: ignore[arg-type]


def test_from_dict_opens_nothing_outside_of_its_folder() -> None:
    data = {
        "version": "2.0",
        "name": "c",
        "entry_point": "a",
        "agents": [{"id": "a", "is_terminal": True}],
        "sub_crews": {"x": {"config_path": "../../examples/desk"}},
    }
    with pytest.raises(UnsoundCrew, match="leads out of the folder"):
        Crew.from_dict(data)


def test_load_crew_gives_the_same_crew_as_from_yaml(tmp_path: Path) -> None:
    assert load_crew(HELLO).definition == Crew.from_yaml(HELLO).definition
    assert isinstance(load_crew(HELLO), Crew)
    with pytest.raises(UnreadableCrew):
        Crew.from_yaml(tmp_path)
    with pytest.raises(UsageError, match="path of a crew"):
        load_crew(load_crew(HELLO))  # type: ignore[arg-type]


def test_functions_given_for_a_file_come_with_its_crew(tmp_path: Path) -> None:
    Crew("c", [Agent("a", tools=[find_order])]).save(tmp_path)
    with pytest.raises(UnsoundCrew, match="find_order"):
        load_crew(tmp_path)
    assert list(load_crew(tmp_path, tools=[find_order]).functions) == ["find_order"]


def test_to_yaml_is_one_file_and_refused_with_sub_crews(tmp_path: Path) -> None:
    crew = Crew("c", [Agent("a", "Say 1e5,\nthen [END].", name="null", role="1e5", on={"[END]": END})])
    (tmp_path / "crew.yaml").write_text(crew.to_yaml(), "utf-8")
    assert load_crew(tmp_path).definition == crew.definition
    assert 'version: "2.0"' in crew.to_yaml() or "version: '2.0'" in crew.to_yaml()
    with pytest.raises(UsageError, match=r"crew\.save"):
        desk().to_yaml()


def test_save_refuses_a_folder_whose_files_would_become_part_of_the_crew(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    with pytest.raises(UsageError, match="agents"):
        Crew("c", [Agent("a")]).save(tmp_path)
    assert not (tmp_path / "crew.yaml").exists()


def test_scripts_are_saved_with_the_crew(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "script.yaml").write_text("a: [done]\n")
    (tmp_path / "one" / "crew.yaml").write_text(
        'version: "2.0"\nname: c\nentry_point: a\nagents: [{id: a, model: "scripted:script.yaml"}]\n'
    )
    load_crew(tmp_path / "one").save(tmp_path / "two")
    again = load_crew(tmp_path / "two")
    assert again.agents[0].primary is not None
    assert again.agents[0].primary.model == str(tmp_path / "two" / "script.yaml")


async def test_what_is_not_a_crew_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with Interlock(tmp_path) as box:
        for wrong in (HELLO, 3, None):
            with pytest.raises(UsageError, match="a run needs a crew"):
                await box.start(wrong, "go")  # type: ignore[arg-type]


def test_a_sub_crew_by_the_name_of_a_file_that_is_not_there_is_a_bad_path() -> None:
    with pytest.raises(UnsoundCrew) as refused:
        Crew("c", [Agent("a", on={"[X]": SubCrew("letters.yaml", return_to="a"), "[END]": END})])
    errors = [problem for problem in refused.value.problems if problem.severity == "error"]
    assert [(each.code, each.message) for each in errors] == [("bad-path", "there is no crew at 'letters.yaml'")]
