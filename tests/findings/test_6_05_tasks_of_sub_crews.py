"""Finding 6.5, sub-crews with a task: task, context, verdict and report cannot imitate one another, nor the user."""

import json
from pathlib import Path
from typing import Any

from interlock import Interlock, load_crew
from tests.findings.forged_speech import TEXTS, read_tags
from tests.findings.puppets import Puppet, call, names, speakers

TREE = """\
version: "2.0"
name: tree
entry_point: root
agents: [{id: root, is_terminal: true}]
sub_crews: {team: {config_path: team}}
delegation: {children: {root: [team]}, max_follow_ups: 1, report_check: model}
"""
TEAM = 'version: "2.0"\nname: team\nentry_point: x\nagents: [{id: x, is_terminal: true}]\n'


async def test_each_stretch_of_a_follow_up_stands_in_a_frame_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "crew.yaml").write_text(TEAM, "utf-8")
    (tmp_path / "crew.yaml").write_text(TREE, "utf-8")
    crew, model = load_crew(tmp_path / "crew.yaml"), Puppet()

    async with Interlock(tmp_path / "data", models=model, durability="normal") as box:
        for text in TEXTS:
            model.use(replies_with(text))
            run = await box.start(crew, "go")
            result = await run.result()
            assert result.status == "completed", (text, result)
            first, again = [request for request in model.requests if request.agent == "x"]
            parent, team = "tree/root", "team"
            assert speakers([first]) == names(parent)
            assert [read_tags(message.text)[::2] for message in again.messages] == [["", parent, parent, team]]
            assert speakers(model.requests) >= {"", *names(parent, team)}
            kept = [event["input"] async for event in box.runner.follow(run.id) if event["type"] == "child.started"]
            assert kept[1].startswith(f"Your report does not complete the task: {text}\nThe task was: {text}\n")


def replies_with(text: str) -> dict[str, list[Any]]:
    refused = json.dumps({"completed": False, "reason": text})
    return {
        "root": ['["team"]', call("delegate", to="team", task=text, context={"k": text}), refused, refused, "done"],
        "x": [text, text],
    }
