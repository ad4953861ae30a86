"""Rules of [approvals] that are about no tool are refused."""

from pathlib import Path

import pytest

from interlock import END, Agent, Crew, Interlock, SubCrew, UsageError, load_crew
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.compose.crews import host_settings
from interlock.crew.host import Host

CREW = """\
version: "2.0"
name: desk
entry_point: a
agents: [{id: a, tools: [pay]}]
routing: {signals: {a: [{signal: "[END]"}]}}
"""


def pay(amount: int = 0) -> str:
    return "paid"


def ship() -> str:
    return "shipped"


def crew_with(*tools: object, name: str = "shop") -> Crew:
    return Crew(name, [Agent("a", "Work.", tools=list(tools), on={"[END]": END})])  # type: ignore[arg-type]


def box_in(folder: Path, rules: str, **more: object) -> Interlock:
    (folder / "interlock.toml").write_text(f"[approvals]\n{rules}\n", "utf-8")
    host = host_settings(str(folder / "interlock.toml"))
    model = ScriptedModel({"a": ["done [END]"] * 4, "b": ["done [END]"]})
    return Interlock(folder / "data", host=host, models=model, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ('deny = ["pya"]', "interlock.toml:2: approvals.deny: there is no tool 'pya'; did you mean 'pay'?"),
        ('\nask = [\n  "pay",\n  "zz_*:to = bob",\n]', "interlock.toml:5: approvals.ask: there is no tool 'zz_*'"),
    ],
)
async def test_a_rule_about_no_tool_is_refused_when_a_run_starts(tmp_path: Path, rules: str, says: str) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    crew = load_crew(tmp_path, host=Host(tools=("pay",)))
    async with box_in(tmp_path, rules, tools=[pay]) as box:
        with pytest.raises(UsageError) as refused:
            await box.start(crew, "go")
        assert says in str(refused.value)
        assert list(await box.journal.rows()) == []


async def test_a_rule_about_a_tool_of_one_crew_does_not_refuse_another_that_is_known_too(tmp_path: Path) -> None:
    async with box_in(tmp_path, 'deny = ["pay:amount > 100"]') as box:
        with pytest.raises(UsageError, match=r"there is no tool 'pay'.* belong in a file of its own"):
            await box.start(crew_with(ship, name="yard"), "go")
        await box.listen(crew_with(pay))
        assert (await (await box.start(crew_with(ship, name="yard"), "go")).result()).status == "completed"


async def test_tools_of_sub_crews_are_known(tmp_path: Path) -> None:
    below = Crew("yard", [Agent("b", "Ship.", tools=[ship], on={"[END]": END})])
    caller = Agent("a", "Pay.", tools=[pay], on={"[SHIP]": SubCrew(below, return_to="a"), "[END]": END})
    async with box_in(tmp_path, 'deny = ["pay:amount > 100"]\nask = ["ship", "s*"]') as box:
        assert (await (await box.start(Crew("desk", [caller]), "go")).result()).status == "completed"


async def test_a_rule_about_a_built_in_tool_is_refused(tmp_path: Path) -> None:
    async with box_in(tmp_path, 'allow = ["delegate"]') as box:
        with pytest.raises(UsageError, match=r"toml:2: approvals\.allow: 'delegate' is built in, and no rule can be"):
            await box.start(crew_with(pay), "go")
        assert list(await box.journal.rows()) == []
