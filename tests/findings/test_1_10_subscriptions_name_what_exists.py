"""Finding 1.10: agents and crews that do not exist are not subscribed, nor are patterns with `*` within a segment."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock import Interlock, load_crew
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ToolCall
from interlock.broadcast import matches
from interlock.cli.main import interlock
from interlock.errors import BadPattern, UnknownSubscriber
from tests.server.office import CREW, code_of, crew_file, open_office

ODD = ["x:**", "a*:b", "*a", "x:*y*:z", "**"]
SUBSCRIPTIONS = "/v1/engine/signals/subscriptions"


@pytest.mark.parametrize("pattern", ODD)
def test_check_reports_such_a_pattern_in_a_crew_file(tmp_path: Path, pattern: str) -> None:
    file = crew_file(tmp_path, f'{CREW}subscriptions: {{clerk: [{{pattern: "{pattern}"}}]}}\n')
    result = CliRunner().invoke(interlock, ["check", str(file), "--json"])
    (problem,) = [each for each in json.loads(result.stdout)["problems"] if each["severity"] == "error"]
    assert (result.exit_code, problem["code"]) == (1, "bad-format")
    assert problem["path"] == "subscriptions.clerk[0].pattern"
    assert "'*' stands alone" in problem["message"]


def test_a_pattern_with_wildcards_for_whole_segments_is_fine(tmp_path: Path) -> None:
    file = crew_file(tmp_path, CREW + 'subscriptions: {clerk: [{pattern: "*:x:*"}]}\n')
    result = CliRunner().invoke(interlock, ["check", str(file), "--json"])
    assert json.loads(result.stdout)["ok"]


def test_matching_itself_is_as_it_was() -> None:
    assert matches("x:**", "x:**") and not matches("x:**", "x:y") and not matches("a*:b", "ab:b")


async def test_the_server_refuses_both_and_takes_what_exists(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:
        await office.box.listen(load_crew(tmp_path / "crew.yaml"))  # as serve does
        good = {"crew": "office", "agent": "clerk", "pattern": "build:*"}
        for pattern in ODD:
            refused = await office.post(SUBSCRIPTIONS, json={**good, "pattern": pattern})
            assert code_of(refused) == (400, "bad-format")
        for wrong in ({"agent": "clark"}, {"crew": "ofice"}):
            refused = await office.post(SUBSCRIPTIONS, json={**good, **wrong})
            assert code_of(refused) == (400, "unknown-subscriber")
        assert (await office.get(SUBSCRIPTIONS)).json()["subscriptions"] == []
        assert (await office.post(SUBSCRIPTIONS, json=good)).status_code == 201


def test_the_command_refuses_both_with_advice(tmp_path: Path) -> None:
    crew_file(tmp_path, 'version: "2.0"\nname: office\nentry_point: clerk\nagents: [{id: clerk, is_terminal: true}]\n')
    (tmp_path / "script.yaml").write_text('replies: {clerk: ["ok"]}\n', "utf-8")

    def said(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(interlock, [*words, "--data", str(tmp_path / "data")])
        return result.exit_code, result.output

    def added(*words: str) -> tuple[int, str]:
        return said("broadcast", "subscriptions", "--add", *words)

    code, output = added("office", "clerk", "build:*")
    assert code == 2 and "no crew 'office' is known here; run it once" in output
    assert said("run", str(tmp_path / "crew.yaml"), "go", "--script", str(tmp_path / "script.yaml"))[0] == 0
    code, output = added("office", "clark", "build:*")
    assert code == 2 and "crew 'office' has no agent 'clark'; did you mean 'clerk'?" in output
    for pattern in ODD:
        assert added("office", "clerk", pattern)[0] == 2
    code, output = added("office", "clerk", "build:*")
    assert code == 0 and "office  clerk  build:*" in output


async def test_a_box_refuses_both_and_still_takes_away_what_an_older_version_took(tmp_path: Path) -> None:
    crew = load_crew(crew_file(tmp_path))

    async with Interlock(tmp_path / "data", models=ScriptedModel({})) as box:
        await box.listen(crew)
        with pytest.raises(BadPattern):
            await box.signals.add("office", "clerk", "x:**")
        for crew_name, agent in (("office", "nobody"), ("nowhere", "clerk")):
            with pytest.raises(UnknownSubscriber):
                await box.signals.add(crew_name, agent, "x:*")
        made = await box.signals.add("office", "clerk", "x:*")
        await box.signals.bus.subscribe(type(made)(crew="office", agent="clerk", pattern="x:**"))
        assert await box.signals.remove("office", "clerk", " x:** ")


async def test_an_agent_that_subscribes_to_such_a_pattern_is_told(tmp_path: Path) -> None:
    text = CREW.replace("{id: clerk,", "{id: clerk, tools: [signal_subscribe],")
    crew = load_crew(crew_file(tmp_path, text))
    call = ScriptedAnswer(tool_calls=(ToolCall(name="signal_subscribe", arguments={"pattern": "x:**"}),))
    model = ScriptedModel({"clerk": [call, "ok [DONE]"]})

    async with Interlock(tmp_path / "data", models=model) as box:
        await (await box.start(crew, "go")).result()
        assert "'*' within the segment '**'" in model.asked[-1].messages[-1].text
        assert not await box.signals.subscriptions()
