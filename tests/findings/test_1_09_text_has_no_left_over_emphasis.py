"""Finding 1.9: what is left of a reply without its marks holds no emphasis of theirs."""

from pathlib import Path

import pytest

from interlock import Interlock
from interlock.compose.crews import load_definition
from interlock.engine.events import InputRequested, ModelReplied, RunStarted
from interlock.engine.run import RULES, Run
from interlock.testing import ScriptedModel

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[DONE]"}, {signal: "[WAIT]"}]}}
settings: {signal_position: anywhere}
"""
TEXTS = {
    "**[DONE]**": "",
    "Well. **[DONE]**": "Well.",
    "Well.\n\n***[DONE]***\n": "Well.",
    "Well. _[DONE]_": "Well.",
    "Well. __[DONE]__": "Well.",
    "Well. ~~[DONE]~~": "Well.",
    "Well. **_[DONE]_**": "Well.",
    "Well. ** [DONE] **": "Well.",
    "Well. **[DONE] [WAIT]**": "Well.",
    "Well. **[DONE]** **[WAIT]**": "Well.",
    "Well. <b>[DONE]</b>": "Well.",
    "Well. <strong>**[DONE]**</strong>": "Well.",
    "**Well [DONE]**": "**Well**",
    "**Well.** [DONE]": "**Well.**",
    "*a* [DONE] *b*": "*a*  *b*",
    "2 * 3 [DONE]": "2 * 3",
    "* a point\n* [DONE]": "* a point\n*",
    "`**[DONE]**` [DONE]": "`**[DONE]**`",
    "[DONE]**": "**",
}


@pytest.mark.parametrize(("reply", "text"), TEXTS.items())
async def test_the_text_of_a_result(reply: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    crew = load_definition(tmp_path)

    model = ScriptedModel({"a": [reply]})
    async with Interlock(tmp_path / "data", models=model, durability="normal") as box:
        result = await (await box.start(crew, "go")).result()
        assert (result.output, result.text) == (reply, text)


@pytest.mark.parametrize(("rules", "question"), [(2, "Which? ****"), (RULES, "Which?")])
def test_the_text_of_a_question_and_of_a_journal_of_older_rules(rules: int, question: str, tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(CREW, "utf-8")
    run = Run(load_definition(tmp_path), "r")
    run.apply(RunStarted(crew="story", input="go", rules=rules))
    assert run.state.turn is not None
    facts = run.apply(ModelReplied(call=run.state.turn.call, agent="a", text="Which? **[WAIT]**")).facts
    assert [fact.question for fact in facts if isinstance(fact, InputRequested)] == [question]
