"""Rules of [approvals] that are about no tool: what is refused, and what is only a warning."""

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


async def warnings_of(box: Interlock, *crews: Crew, caplog: pytest.LogCaptureFixture) -> list[str]:
    async with box:
        for crew in crews:
            assert (await (await box.start(crew, "go")).result()).status == "completed"
    return [record.getMessage() for record in caplog.records if "approvals." in record.getMessage()]


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ('deny = ["pya"]', ":2: approvals.deny: rule 'pya' is about no tool of this crew or of the host; did you mean"),
        ('\nask = [\n  "pay",\n  "zz_*:to = bob",\n]', "toml:5: approvals.ask: rule 'zz_*:to = bob' is about no tool"),
    ],
)  # fmt: skip
async def test_a_rule_about_no_tool_here_is_a_warning_once(
    tmp_path: Path, rules: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    crew = load_crew(tmp_path, host=Host(tools=("pay",)))
    (warning,) = await warnings_of(box_in(tmp_path, rules, tools=[pay]), crew, crew, caplog=caplog)
    assert says in warning
    assert warning.endswith("(it is right if another crew has such a tool)")


async def test_a_rule_about_a_tool_of_one_crew_does_not_refuse_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = box_in(tmp_path, 'deny = ["pay:amount > 100"]')
    (warning,) = await warnings_of(box, crew_with(pay), crew_with(ship, name="yard"), caplog=caplog)
    assert "rule 'pay:amount > 100' is about no tool" in warning


async def test_tools_of_sub_crews_are_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    below = Crew("yard", [Agent("b", "Ship.", tools=[ship], on={"[END]": END})])
    caller = Agent("a", "Pay.", tools=[pay], on={"[SHIP]": SubCrew(below, return_to="a"), "[END]": END})
    box = box_in(tmp_path, 'deny = ["pay:amount > 100"]\nask = ["ship", "s*"]')
    assert await warnings_of(box, Crew("desk", [caller]), caplog=caplog) == []


async def test_a_rule_about_a_built_in_tool_is_refused(tmp_path: Path) -> None:
    async with box_in(tmp_path, 'allow = ["delegate"]') as box:
        with pytest.raises(UsageError, match=r"toml:2: approvals\.allow: 'delegate' is built in, and no rule can be"):
            await box.start(crew_with(pay), "go")
        assert list(await box.journal.rows()) == []
