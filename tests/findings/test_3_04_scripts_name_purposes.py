"""Finding 3.4: scripts may name the purpose of an answer, `planner:check`, `planner:select`."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.cli.main import interlock
from interlock.errors import ScriptExhausted
from interlock.ports import ModelReply, ModelRequest

TRAVEL = Path(__file__).parent.parent.parent / "examples" / "travel"


async def whole_reply(model: ScriptedModel, request: ModelRequest) -> str:
    async for piece in model.reply(request):
        if isinstance(piece, ModelReply):
            return piece.text
    return ""


def asked(agent: str, purpose: str, number: int, purpose_number: int) -> ModelRequest:
    return ModelRequest(
        key="r:1.0",
        agent=agent,
        number=number,
        system="",
        messages=(),
        purpose=purpose,
        purpose_number=purpose_number,
    )


async def test_answers_of_a_purpose_are_counted_by_themselves() -> None:
    model = ScriptedModel({"planner": ["plan", "end"], "planner:select": ["[a]"], "planner:check": ["yes", "no"]})
    calls = [
        asked("planner", "select", 1, 1),
        asked("planner", "", 2, 1),
        asked("planner", "check", 3, 1),
        asked("planner", "check", 4, 2),
        asked("planner", "", 5, 2),
    ]
    assert [await whole_reply(model, call) for call in calls] == ["[a]", "plan", "yes", "no", "end"]


async def test_a_script_without_purposes_has_them_among_the_others() -> None:
    model = ScriptedModel({"planner": ["[a]", "plan"]})
    assert await whole_reply(model, asked("planner", "select", 1, 1)) == "[a]"
    assert await whole_reply(model, asked("planner", "", 2, 1)) == "plan"


async def test_a_purpose_that_the_script_forgot_is_named() -> None:
    model = ScriptedModel({"planner": ["plan"], "planner:check": ["yes"]})
    with pytest.raises(ScriptExhausted, match="0 answers for agent 'planner:select'"):
        await whole_reply(model, asked("planner", "select", 1, 1))


def test_the_travel_example_names_purposes_and_runs(tmp_path: Path) -> None:
    script = (TRAVEL / "script.yaml").read_text("utf-8")
    assert "planner:check:" in script
    assert "planner:select:" in script
    shutil.copytree(TRAVEL, tmp_path / "travel")
    words = ["run", str(tmp_path / "travel"), "Plan a trip from LAX to Italy", "--data", str(tmp_path / "data")]
    done = CliRunner().invoke(interlock, [*words, "--script", str(tmp_path / "travel" / "script.yaml"), "--plain"])
    assert done.exit_code == 3, done.output  # it asks how many nights
    assert "How many nights" in done.output
