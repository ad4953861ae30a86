"""Crews that are given tasks, on a real store: they report, fail, ask people, are too late, and delegate themselves."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.adapters.models.scripted_model import Answers, ScriptedAnswer, ScriptedModel, ToolCall
from interlock.compose.crews import load_definition
from interlock.compose.upkeep.archive import export_run, import_run
from interlock.crew.definition import CrewDefinition
from interlock.engine.events import ChildReturned, ChildStarted, MessageSent, MessageSettled
from interlock.errors import CannotFork
from interlock.messages.frames import words_in_frames
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta, RunRow
from interlock.testing import ManualClock
from tests.framing import said

HEAD = 'version: "2.0"\nname: {name}\n'
OUTER = """\
entry_point: boss
agents: [{id: boss, is_terminal: true}, {id: clerk}]
sub_crews: {team: {config_path: team%s}}
delegation: {children: {boss: [clerk, team]}, select: %s%s}
%s"""
TEAM = """\
entry_point: lead
agents: [{id: lead, tools: [ask_user]}, {id: helper}]
sub_crews: {cellar: {config_path: cellar}}
routing:
  signals:
    lead: [{signal: "[NEXT]", target: helper}, {signal: "[END]"}]
    helper: [{signal: "[RETRY]", target: lead}, {signal: "[END]"}]
delegation: {children: {lead: [cellar]}, select: all}
"""
CELLAR = "entry_point: miner\nagents: [{id: miner, is_terminal: true}]\n"


def office(folder: Path, *, caps: str = "", select: str = "all", keys: str = "", settings: str = "") -> CrewDefinition:
    """A boss with a clerk and a team, whose lead delegates to another crew."""
    files = {".": OUTER % (caps, select, keys, settings), "team": TEAM, "team/cellar": CELLAR}
    for place, text in files.items():
        (folder / place).mkdir(parents=True, exist_ok=True)
        name = "office" if place == "." else place.rpartition("/")[2]
        (folder / place / "crew.yaml").write_text(HEAD.format(name=name) + text, "utf-8")
    return load_definition(folder)


def box_of(folder: Path, answers: Answers, **more: Any) -> Interlock:
    return Interlock(folder / "data", models=ScriptedModel(answers), durability="normal", **more)


def calls(*calls: tuple[str, dict[str, Any]]) -> ScriptedAnswer:
    return ScriptedAnswer(tool_calls=tuple(ToolCall(name, given) for name, given in calls))


def gives(to: str, task: str = "look", **more: Any) -> ScriptedAnswer:
    return calls(("delegate", {"to": to, "task": task, **more}))


ASKS = calls(("ask_user", {"question": "How deep?"}))


async def told(box: Interlock, crew: CrewDefinition) -> tuple[Any, list[str], list[RunRow]]:
    """What came of it, what the boss was told last, and the runs below."""
    run = await box.start(crew, "Coal", run_id="r")
    result = await run.result()
    events = [event for record in await box.journal.records("r") for event in record.events]
    sent = [event.message for event in events if isinstance(event, MessageSent)]
    reports = [f"{each['status']}: {each['result']}" for each in sent if each["type"] == "REPORT"]
    return result, reports, list(await box.journal.rows_below("r"))


async def test_a_crews_answer_is_its_report(tmp_path: Path) -> None:
    model = ScriptedModel({"boss": [gives("team", "Find coal"), "Coal it is."], "lead": ["Found.\n[END]"]})
    async with Interlock(tmp_path / "data", models=model) as box:
        result, reports, below = await told(box, office(tmp_path))
    assert (result.status, result.text, result.usage.calls) == ("completed", "Coal it is.", 3)
    assert reports == ["completed: Found."]
    assert [(row.crew, row.status) for row in below] == [("team", "completed")]
    assert model.asked[1].messages[0].text == said("office/boss", "task", "Find coal")
    assert model.asked[1].path == ("team",)


async def test_an_agent_and_a_crew_work_at_the_same_time(tmp_path: Path) -> None:
    """Each waits until the other is at work."""
    met: list[str] = []
    both = asyncio.Event()

    class Meets:
        def __init__(self) -> None:
            self.script = ScriptedModel(
                {"boss": [calls(*_both()), "Done."], "clerk": ["Paper."], "lead": ["Coal.\n[END]"]}
            )

        async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
            if request.agent != "boss":
                met.append(request.agent)
                if len(met) == 2:
                    both.set()
                await both.wait()
            async for piece in self.script.reply(request):
                yield piece

    async with Interlock(tmp_path / "data", models=Meets()) as box:
        result, reports, _ = await told(box, office(tmp_path))
    assert (result.status, sorted(reports)) == ("completed", ["completed: Coal.", "completed: Paper."])


def _both() -> list[tuple[str, dict[str, Any]]]:
    return [("delegate", {"to": name, "task": "look"}) for name in ("clerk", "team")]


@pytest.mark.parametrize(
    ("caps", "lead", "report"),
    [
        (
            "",
            ScriptedAnswer(error="gone", retry=False),
            "needs_help: error: the crew 'team' did not complete: failed, model_error",
        ),
        (
            ", settings: {max_handoffs: 1}",
            "On.\n[NEXT]",
            "partial: Half of it.\n(the crew 'team' did not complete: stopped, max_handoffs)",
        ),
        (
            ", settings: {max_calls_per_run: 1}",
            gives("cellar"),
            "needs_help: error: the crew 'team' did not complete: stopped, budget:calls",
        ),
    ],
)
async def test_a_crew_that_does_not_complete_says_so_and_its_boss_goes_on(
    tmp_path: Path, caps: str, lead: ScriptedAnswer | str, report: str
) -> None:
    answers: Answers = {"boss": [gives("team"), "Without it."], "lead": [lead], "helper": ["Half of it.\n[RETRY]"]}
    async with box_of(tmp_path, answers) as box:
        result, reports, _ = await told(box, office(tmp_path, caps=caps))
    assert (result.status, result.text, reports) == ("completed", "Without it.", [report])


async def test_a_report_that_is_sent_back_is_another_run_that_knows_the_first(tmp_path: Path) -> None:
    def check(task: str, report: str) -> str:
        return "" if "ton" in report else "say how much"

    answers: Answers = {
        "boss": [gives("team", "Find coal", context={"where": "north"}), "is checked", "is checked", "A ton."],
        "lead": ["Coal.\n[END]", "A ton of coal.\n[END]"],
    }
    model = ScriptedModel(answers)
    box = Interlock(tmp_path / "data", models=model, check_report=check)
    async with box:
        result, reports, below = await told(box, office(tmp_path, keys=", report_check: model"))
    assert (result.text, reports) == ("A ton.", ["completed: Coal.", "completed: A ton of coal."])
    assert [row.status for row in below] == ["completed", "completed"]
    again = next(request for request in model.asked if request.number == 2 and request.agent == "lead")
    assert words_in_frames(again.messages[0].text) == ["say how much", "Find coal", '{"where":"north"}', "Coal."]


async def test_a_host_selects_a_crew(tmp_path: Path) -> None:
    answers: Answers = {"boss": ["is selected", gives("clerk"), gives("team"), "Done."], "lead": ["Coal.\n[END]"]}
    box = box_of(tmp_path, answers, select_children=lambda _task, ids: [ids[1]])
    async with box:
        result, reports, _ = await told(box, office(tmp_path, select="model"))
    assert (result.status, reports) == ("completed", ["completed: Coal."])


# Deadlines, cancelling, people


class Stuck:
    """Answers from a script; some agents never do."""

    def __init__(self, answers: Answers, silent: str) -> None:
        self.script, self.silent, self.waiting = ScriptedModel(answers), silent, asyncio.Event()
        self.given_up: list[str] = []

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        if request.agent == self.silent:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up.append(request.agent)
        async for piece in self.script.reply(request):
            yield piece


DEEP: Answers = {
    "boss": [gives("team"), "Without them."],
    "lead": [gives("cellar"), "Deep.\n[END]"],
    "miner": ["Coal."],
}


async def test_a_deadline_stops_the_crew_and_everything_below_it(tmp_path: Path) -> None:
    clock, model = ManualClock(), Stuck(DEEP, "miner")
    async with Interlock(tmp_path / "data", models=model, clock=clock, durability="normal") as box:
        run = await box.start(office(tmp_path, keys=", answer_timeout_seconds: 60"), "Coal", run_id="r")
        await model.waiting.wait()
        clock.advance(60_000)
        result = await run.result()
        events = [event for record in await box.journal.records("r") for event in record.events]
        fates = [event.outcome for event in events if isinstance(event, MessageSettled)]
        below, given_up = [row.status for row in await box.journal.rows_below("r")], model.given_up
    assert (result.status, result.text) == ("completed", "Without them.")
    assert (fates, below, given_up) == (["timed_out"], ["cancelled", "cancelled"], ["miner"])


async def test_cancelling_the_run_ends_every_crew_below(tmp_path: Path) -> None:
    model = Stuck(DEEP, "miner")

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(office(tmp_path), "Coal", run_id="r")
        await model.waiting.wait()
        result = await (await box.cancel(run.id)).result()
        assert (result.status, [row.status for row in await box.journal.rows_below("r")]) == (
            "cancelled",
            ["cancelled", "cancelled"],
        )
    assert model.given_up == ["miner"]


async def test_a_crew_that_is_cancelled_by_somebody_needs_help(tmp_path: Path) -> None:
    model = Stuck(DEEP, "miner")

    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(office(tmp_path), "Coal", run_id="r")
        await model.waiting.wait()
        await box.cancel((await box.journal.rows_below("r"))[0].run)
        result = await run.result()
    assert (result.status, result.text) == ("completed", "Without them.")


async def test_a_crew_whose_agents_delegate_to_another_crew(tmp_path: Path) -> None:
    async with box_of(tmp_path, DEEP) as box:
        result, reports, below = await told(box, office(tmp_path))
    assert (result.status, reports) == ("completed", ["completed: Deep."])
    assert [(row.crew, row.status, row.usage.calls) for row in below] == [
        ("team", "completed", 3),
        ("cellar", "completed", 1),
    ]
    assert result.usage.calls == 5


ASKING: Answers = {"boss": [gives("team"), "As deep as you say."], "lead": [ASKS, "Three.\n[END]"]}


async def test_a_question_inside_a_crew_is_answered_after_a_restart(tmp_path: Path) -> None:
    crew = office(tmp_path, keys=", answer_timeout_seconds: 60")

    async with box_of(tmp_path, ASKING) as box:
        result = await (await box.start(crew, "Coal", run_id="r")).result()
        status, ((child, agent),) = result.status, [(each.run, each.agent) for each in await box.questions()]
    assert (status, agent) == ("paused", "lead")
    assert child.startswith("r~")
    model = ScriptedModel(ASKING)

    async with Interlock(tmp_path / "data", models=model) as box:
        (question,) = await box.questions()
        await (await box.answer(question.id, "3")).result()
        await box.runner.wait_until_settled("r")
        result = await box.result("r")
    assert (result.status, result.text) == ("completed", "As deep as you say.")
    assert [request.agent for request in model.asked] == ["lead", "boss"], "nothing that was answered is asked again"


# Bounds


async def test_a_bound_of_the_run_reached_inside_a_crew_stops_it_all(tmp_path: Path) -> None:
    """Boss 1 of 4, so the team may make 1 of the 3 that are left, and needs a second one."""
    answers: Answers = {"boss": [gives("team"), "never"], "lead": ["On.\n[NEXT]"], "helper": ["Done.\n[END]"]}
    settings = "settings: {max_calls_per_run: 4}\n"
    async with box_of(tmp_path, answers) as box:
        result, reports, below = await told(box, office(tmp_path, settings=settings))
    assert (result.status, result.reason, reports) == ("stopped", "budget:calls", [])
    assert [(row.status, row.reason) for row in below] == [("stopped", "budget:calls")]


async def test_calls_of_a_crew_count_in_the_windows_of_whoever_delegates(tmp_path: Path) -> None:
    answers: Answers = {"boss": [gives("team"), "never"], "lead": ["On.\n[NEXT]"], "helper": ["Done.\n[END]"]}
    settings = "settings: {max_calls_per_day: 2}\n"
    async with box_of(tmp_path, answers) as box:
        result, _, below = await told(box, office(tmp_path, settings=settings))
    assert (result.status, result.reason, result.usage.calls) == ("stopped", "budget:calls", 2)
    assert below[0].status == "stopped"


# Keeping


async def test_a_fork_keeps_what_a_crew_reported_and_none_is_made_while_it_works(tmp_path: Path) -> None:
    async with box_of(tmp_path, DEEP) as box:
        await told(box, office(tmp_path))
        records = await box.journal.records("r")
        started = next(r for r in records if any(isinstance(e, ChildStarted) for e in r.events))
        with pytest.raises(CannotFork):
            await box.fork("r", after=started.last_seq)
        back = next(r for r in records if isinstance(r.events[0], ChildReturned))
        fork = await (await box.fork("r", after=back.last_seq)).result()
        below = await box.journal.rows_below(fork.run)
    assert (fork.status, fork.text, below) == ("completed", "Without them.", [])


async def test_a_tree_of_delegated_crews_is_exported_while_it_waits_and_goes_on_where_it_is_imported(
    tmp_path: Path,
) -> None:
    async with box_of(tmp_path, ASKING) as box:
        assert (await told(box, office(tmp_path)))[0].status == "paused"
        body = await export_run(box, "r")
    async with Interlock(tmp_path / "elsewhere", models=ScriptedModel(ASKING)) as box:
        await import_run(box, body, "r.run")
        (question,) = await box.questions()
        await (await box.answer(question.id, "3")).result()
        await box.runner.wait_until_settled("r")
        result = await box.result("r")
    assert (result.status, result.text) == ("completed", "As deep as you say.")
