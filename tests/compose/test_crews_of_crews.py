"""Crews that call crews, on a real store: children go, wait, fail, end and come back with their callers."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock import AlreadyResumed, Interlock
from interlock.adapters.models.scripted_model import ScriptedAnswer, ScriptedModel, ScriptUsage, ToolCall
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import CrewContext, Entry
from interlock.errors import NotWaiting, ParentIsOver
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta
from tests.framing import by_user

HEAD = 'version: "2.0"\nname: {name}\n'
OUTER = """\
entry_point: a
agents: [{id: a, name: Ann}, {id: fixer}]
sub_crews:
  alpha: {config_path: alpha%s}
  beta: {config_path: beta}
routing:
  signals:
    a:
      - {signal: "[RESEARCH]", type: sub_crew, target_crew: alpha%s}
      - signal: "[WRITE]"
        type: sub_crew
        target_crew: beta
        input_template: "{{.PreviousResult}} / {{.OriginalInput}}"
      - {signal: "[NEXT]", target: fixer, type: route}
      - {signal: "[END]"}
    fixer: [{signal: "[END]"}]
%s"""
ALPHA = """\
entry_point: x
agents: [{id: x, tools: [memory_write, memory_read]}]
sub_crews: {inner: {config_path: inner}}
routing:
  signals:
    x: [{signal: "[DEEP]", type: sub_crew, target_crew: inner}, {signal: "[RETRY]", target: x}, {signal: "[END]"}]
%s"""
INNER = """\
entry_point: y
agents: [{id: y}]
routing: {signals: {y: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
"""
BETA = """\
entry_point: z
agents: [{id: z, tools: [memory_read]}]
routing: {signals: {z: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
"""


def nested(
    folder: Path, *, caps: str = "", route: str = "", settings: str = "", inner_settings: str = ""
) -> CrewDefinition:
    files = {".": OUTER % (caps, route, settings), "alpha": ALPHA % inner_settings, "alpha/inner": INNER, "beta": BETA}
    for place, text in files.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        name = place.replace("/", "-") if place != "." else "outer"
        (folder / place / "crew.yaml").write_text(HEAD.format(name=name) + text, "utf-8")
    return load_definition(folder)


def box_of(folder: Path, answers: dict[str, Any], **more: Any) -> Interlock:
    return Interlock(folder / "data", models=ScriptedModel(answers), durability="normal", **more)


WHOLE = {
    "a": ["Look. [RESEARCH]", "Now write. [WRITE]", "All done. [END]"],
    "x": ["Deeper. [DEEP]", "Found it. [END]"],
    "y": ["That one. [END]"],
    "z": ["Written. [END]"],
}
WAITING = {**WHOLE, "y": ["Which one? [WAIT]", "That one. [END]"]}


async def test_a_tree_of_runs_goes_from_input_to_its_ending_with_one_stream(tmp_path: Path) -> None:
    async with box_of(tmp_path, WHOLE) as box:
        handle = await box.start(nested(tmp_path), "Lamps")
        run = handle.id
        events = [event async for event in box.runner.follow(handle.id) if "seq" in event]
        again = [event async for event in box.runner.follow(run) if "seq" in event]
        result, below = await handle.result(), await box.journal.rows_below(run)
    assert (result.status, result.text, result.usage.calls) == ("completed", "All done.", 7)
    assert [(row.crew, row.status, row.usage.calls) for row in below] == [
        ("alpha", "completed", 3),
        ("alpha-inner", "completed", 1),
        ("beta", "completed", 1),
    ]
    started = {e["run"]: e.get("path", []) for e in events if e["type"] == "run.started"}
    assert [started[row.run] for row in below] == [["alpha"], ["alpha", "inner"], ["beta"]]
    assert all(e["path"] == started[e["run"]] for e in events if e["run"] != run)
    for each in started:
        assert [e["seq"] for e in events if e["run"] == each] == list(
            range(1, 1 + sum(e["run"] == each for e in events))
        )
    assert (events[-1]["run"], events[-1]["type"]) == (run, "run.finished")
    assert sorted(again, key=_place) == sorted(events, key=_place)
    inputs = [e["input"] for e in events if e["type"] == "child.started"]
    assert inputs == ["Lamps", "Lamps", "Found it. / Lamps"]


def _place(event: dict[str, Any]) -> tuple[str, int]:
    return event["run"], event["seq"]


async def test_following_from_the_middle_leaves_out_what_was_seen_and_still_knows_the_paths(tmp_path: Path) -> None:
    async with box_of(tmp_path, WHOLE) as box:
        handle = await box.start(nested(tmp_path), "Lamps")
        run = handle.id
        events = [event async for event in box.runner.follow(handle.id) if "seq" in event]
        own = [event["seq"] for event in events if event["run"] == run]
        middle = own[len(own) // 2]
        later = [event async for event in box.runner.follow(run, middle)]
    assert [e["seq"] for e in later if e["run"] == run] == list(range(middle + 1, events[-1]["seq"] + 1))
    assert {tuple(e["path"]) for e in later if e["run"] != run} == {("beta",)}


async def test_a_question_two_levels_down_pauses_all_and_its_answer_goes_there_in_another_process(
    tmp_path: Path,
) -> None:
    crew = nested(tmp_path)

    async with box_of(tmp_path, WAITING) as box:
        paused = await (await box.start(crew, "Lamps")).result()
        below = [(row.status, row.reason) for row in await box.journal.rows_below(paused.run)]
    assert (paused.status, paused.reason, paused.agent) == ("paused", "signal:[WAIT]", "a")
    assert below == [("paused", "signal:[WAIT]")] * 2
    model = ScriptedModel(WAITING)

    async with Interlock(tmp_path / "data", models=model) as box:
        result = await (await box.resume(paused.run, "the red one", token=paused.token)).result()
    assert (result.status, result.text) == ("completed", "All done.")
    assert [(r.path, r.agent) for r in model.asked] == [
        (("alpha", "inner"), "y"),
        (("alpha",), "x"),
        ((), "a"),
        (("beta",), "z"),
        ((), "a"),
    ], "nothing that was answered is asked again"
    assert by_user("the red one") in [message.text for message in model.asked[0].messages]


@pytest.mark.parametrize("where", ["root", "child", "grandchild", "nothing said"])
async def test_a_childs_token_works_on_the_child_and_on_any_ancestor(where: str, tmp_path: Path) -> None:
    async with box_of(tmp_path, WAITING) as box:
        paused = await (await box.start(nested(tmp_path), "Lamps")).result()
        child, grandchild = [row.run for row in await box.journal.rows_below(paused.run)]
        run = {"root": paused.run, "child": child, "grandchild": grandchild}.get(where, paused.run)
        await box.resume(run, "red", token=None if where == "nothing said" else paused.token)
        await box.runner.wait_until_settled(paused.run)
        first = await box.result(paused.run)
        await box.resume(run, "red", token=paused.token)
        with pytest.raises(AlreadyResumed):
            await box.resume(run, "blue", token=paused.token)
        below = await box.result(grandchild)
    assert (first.status, below.status) == ("completed", "completed")


async def test_two_children_wait_at_once_and_each_gets_its_own_answer(tmp_path: Path) -> None:
    answers = {
        "a": ["Both. [WRITE] [RESEARCH]", "Fine. [END]"],
        "x": ["Deeper. [DEEP]", "Found. [END]"],
        "y": ["Which? [WAIT]", "Yours. [END]"],
        "z": ["How long? [WAIT]", "Short. [END]"],
    }

    async with box_of(tmp_path, answers) as box:
        run = await box.start(nested(tmp_path), "Lamps")
        await run.result()
        waits = (await box.state(run.id)).waits
        with pytest.raises(NotWaiting, match="waits for 2 answers"):
            await box.resume(run.id, "?")
        tokens = {wait.agent: wait.token for wait in waits}
        half = await (await box.resume(run.id, "ten lines", token=tokens["beta/z"])).result()
        done = await (await box.resume(run.id, "mine", token=tokens["alpha/inner/y"])).result()
        history = (await box.state(run.id)).history
    assert (half.status, done.status) == ("paused", "completed")
    assert [entry.text for entry in history][-2] == "[alpha] Found.\n[beta] Short."


class Stuck:
    """Answers from a script; some agents never do."""

    def __init__(self, answers: dict[str, Any], *silent: str) -> None:
        self.script, self.silent = ScriptedModel(answers), silent
        self.waiting = asyncio.Event()
        self.given_up: list[str] = []

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        if request.agent in self.silent:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.append(request.agent)
        async for piece in self.script.reply(request):
            yield piece


async def test_cancelling_a_run_ends_everything_below_it(tmp_path: Path) -> None:
    model = Stuck(WHOLE, "y")

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(nested(tmp_path), "Lamps")
        await model.waiting.wait()
        result = await (await box.cancel(run.id)).result()
        below = [row.status for row in await box.journal.rows_below(run.id)]
    assert (result.status, below, model.given_up) == ("cancelled", ["cancelled", "cancelled"], ["y"])


async def test_a_child_that_is_cancelled_fails_for_its_caller(tmp_path: Path) -> None:
    model = Stuck({**WHOLE, "fixer": ["I see. [END]"]}, "y")

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(nested(tmp_path, route=", on_error: fixer"), "Lamps")
        await model.waiting.wait()
        child = (await box.journal.rows_below(run.id))[0].run
        await box.cancel(child)
        result, history = await run.result(), (await box.state(run.id)).history
    assert (result.status, result.agent) == ("completed", "fixer")
    assert "the crew 'alpha' did not complete: cancelled" in history[-2].text


async def test_a_paused_child_is_cancelled_in_another_process_and_its_caller_goes_on(tmp_path: Path) -> None:
    crew = nested(tmp_path, route=", on_error: fixer")
    answers = {**WAITING, "fixer": ["I see. [END]"]}

    async with box_of(tmp_path, answers) as box:
        run = (await (await box.start(crew, "Lamps")).result()).run
    async with box_of(tmp_path, answers) as box:
        child = (await box.journal.rows_below(run))[0].run
        await box.cancel(child)
        await box.runner.wait_until_settled(run)
        result, below = await box.result(run), [row.status for row in await box.journal.rows_below(run)]
    assert (result.status, result.agent, below) == ("completed", "fixer", ["cancelled", "cancelled"])


async def test_what_is_below_a_run_that_is_over_cannot_be_answered(tmp_path: Path) -> None:
    async with box_of(tmp_path, WAITING) as box:
        paused = await (await box.start(nested(tmp_path), "Lamps")).result()
        await box.cancel(paused.run)
        await box.runner.wait_until_settled(paused.run)
        with pytest.raises((NotWaiting, ParentIsOver)):
            await box.resume(paused.run, "late", token=paused.token)
        assert [row.status for row in await box.journal.rows_below(paused.run)] == ["cancelled", "cancelled"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"inner_settings": "settings: {max_handoffs: 1}\n"}, "stopped, max_handoffs"),
        ({"caps": ", settings: {max_handoffs: 1}"}, "stopped, max_handoffs"),
        ({"caps": ", settings: {max_calls_per_run: 1}"}, "stopped, budget:calls"),
        ({"inner_settings": "settings: {max_calls_per_run: 1}\n"}, "stopped, budget:calls"),
    ],
)
async def test_a_bound_of_a_child_is_its_callers_to_handle(how: dict[str, str], reason: str, tmp_path: Path) -> None:
    answers = {
        **WHOLE,
        "x": ["Again. [RETRY]", "And again. [RETRY]", "More. [END]"],
        "a": ["Look. [RESEARCH]", "Well. [END]"],
    }

    async with box_of(tmp_path, answers) as box:
        run = await box.start(nested(tmp_path, route=", on_error: return", **how), "Lamps")
        result, history = await run.result(), (await box.state(run.id)).history
    assert (result.status, result.text) == ("completed", "Well.")
    assert history[-2].text == f"the crew 'alpha' did not complete: {reason}"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ("settings: {max_calls_per_run: 3}\n", "budget:calls"),
        ("settings: {max_tokens_per_run: 400}\n", "budget:tokens"),
        ("settings: {max_calls_per_day: 3}\n", "budget:calls"),
        ("settings: {max_tokens_per_hour: 400}\n", "budget:tokens"),
    ],
)
async def test_a_bound_of_the_outermost_run_reached_below_stops_the_whole_tree(
    settings: str, reason: str, tmp_path: Path
) -> None:
    usage = ScriptUsage(input_tokens=150, output_tokens=50)
    answers = {name: [ScriptedAnswer(text=text, usage=usage) for text in said] for name, said in WHOLE.items()}

    async with box_of(tmp_path, answers) as box:
        run = await box.start(nested(tmp_path, route=", on_error: return", settings=settings), "Lamps")
        result = await run.result()
        below = [(row.status, row.reason) for row in await box.journal.rows_below(run.id)]
    assert (result.status, result.reason) == ("stopped", reason)
    assert ("stopped", reason) in below
    assert all(status != "running" for status, _ in below)


async def test_calls_of_children_fill_the_callers_windows_over_several_runs(tmp_path: Path) -> None:
    """A whole run makes 7 calls; the day has 10, so the second one stops, somewhere below."""

    async with box_of(tmp_path, WHOLE) as box:
        crew = nested(tmp_path, settings="settings: {max_calls_per_day: 10}\n")
        first = await (await box.start(crew, "Lamps")).result()
        second = await (await box.start(crew, "Lamps")).result()
    assert (first.status, second.status, second.reason, second.usage.calls) == (
        "completed",
        "stopped",
        "budget:calls",
        3,
    )


async def test_memory_goes_down_and_comes_back(tmp_path: Path) -> None:
    answers: dict[str, list[ScriptedAnswer | str]] = {
        "a": ["[RESEARCH]", "[WRITE]", "[END]"],
        "x": [
            ScriptedAnswer(tool_calls=(ToolCall(name="memory_read", arguments={"key": "from"}),)),
            ScriptedAnswer(
                tool_calls=(ToolCall(name="memory_write", arguments={"key": "found", "value": ["red", 2]}),)
            ),
            "Kept. [END]",
        ],
        "z": [ScriptedAnswer(tool_calls=(ToolCall(name="memory_read", arguments={"key": "found"}),)), "Read. [END]"],
    }
    model = ScriptedModel(answers)

    async with Interlock(tmp_path / "data", models=model) as box:
        context = CrewContext(shared_memory={"from": "the host"}, original_input="What it was first", parent_history=(
            Entry(role="user", author="user", text="Long ago", turn=0),
        ))  # fmt: skip
        run = await box.start(nested(tmp_path), "Lamps", context=context)
        result, state = await run.result(), await box.state(run.id)
    assert result.status == "completed"
    assert state.memory == {"from": "the host", "found": ["red", 2]}
    told = [m.text for request in model.asked for m in request.messages if m.role == "tool"]
    assert told.count("the host") == 2 and '["red",2]' in told
    assert state.history[0].text == "Long ago"
    first_of_z = next(request for request in model.asked if request.agent == "z")
    assert first_of_z.messages[0].text == by_user("Kept. / What it was first")


async def test_what_a_child_that_failed_has_written_does_not_come_back(tmp_path: Path) -> None:
    written = ToolCall(name="memory_write", arguments={"key": "found", "value": "half"})
    answers: dict[str, list[ScriptedAnswer | str]] = {
        "a": ["[RESEARCH]", "Well. [END]"],
        "x": [ScriptedAnswer(tool_calls=(written,)), ScriptedAnswer(error="down", retry=False)],
    }

    async with box_of(tmp_path, answers) as box:
        run = await box.start(nested(tmp_path, route=", on_error: return"), "Lamps")
        result, child = await run.result(), (await box.journal.rows_below(run.id))[0].run
        assert (result.status, (await box.state(run.id)).memory, (await box.state(child)).memory) == (
            "completed",
            {},
            {"found": "half"},
        )


async def test_a_sub_crew_that_is_called_again_goes_on_counting_its_answers(tmp_path: Path) -> None:
    answers = {"a": ["[WRITE]", "[WRITE]", "[END]"], "beta/z": ["One. [END]", "Two. [END]"], "z": ["never"]}

    async with box_of(tmp_path, answers) as box:
        run = await box.start(nested(tmp_path), "Lamps")
        await run.result()
        assert [entry.text for entry in (await box.state(run.id)).history if entry.author == "beta"] == ["One.", "Two."]


async def test_an_external_signal_of_a_child_reaches_the_host_and_its_answer_the_child(tmp_path: Path) -> None:
    crew_folder = tmp_path / "crews"
    nested(crew_folder)
    beta = BETA.replace('{signal: "[WAIT]"}', '{signal: "[ASK]", type: external, pause: true}')
    (crew_folder / "beta" / "crew.yaml").write_text(HEAD.format(name="beta") + beta, "utf-8")
    told: list[Any] = []
    answers = {"a": ["[WRITE]", "[END]"], "z": ["May I? [ASK]", "Thanks. [END]"]}

    async with box_of(tmp_path, answers, on_external=told.append) as box:
        run = (await (await box.start(load_definition(crew_folder), "Lamps")).result()).run
    assert [(tell.signal, tell.requires_response) for tell in told] == [("[ASK]", True)]

    async with box_of(tmp_path, answers) as box:
        result = await (await box.resume(run, "you may", token=told[0].token)).result()
        child = (await box.journal.rows_below(run))[0].run
        entry = (await box.state(child)).history[-2]
    assert (result.status, entry.author, entry.text) == ("completed", "external", "you may")


async def test_ten_levels_of_crews_run(tmp_path: Path) -> None:
    folder, levels = tmp_path / "crew", 10
    for level in range(levels):
        folder.mkdir()
        inner = level < levels - 1
        sub = "sub_crews: {down: {config_path: down}}\n" if inner else ""
        route = '{signal: "[DOWN]", type: sub_crew, target_crew: down}, ' if inner else ""
        (folder / "crew.yaml").write_text(
            HEAD.format(name=f"level{level}") + f"entry_point: a{level}\nagents: [{{id: a{level}}}]\n{sub}"
            f'routing: {{signals: {{a{level}: [{route}{{signal: "[END]"}}]}}}}\n',
            "utf-8",
        )
        folder = folder / "down"
    answers = {f"a{level}": ["[DOWN]", f"{level} [END]"] for level in range(levels - 1)} | {"a9": ["deep [END]"]}

    async with box_of(tmp_path, answers) as box:
        result = await (await box.start(load_definition(tmp_path / "crew"), "go")).result()
        below = await box.journal.rows_below(result.run)
    assert (result.status, result.usage.calls, len(below)) == ("completed", 19, 9)
