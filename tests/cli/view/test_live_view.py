"""The live view: what it makes of a run's events, and pages that fit whatever the terminal and the text."""

import os
import pty
import select
import sys
import termios
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from interlock import Interlock
from interlock.cli.view.live_graph import GraphLayout
from interlock.cli.view.live_rows import duration_text, tail_of, wrap_words
from interlock.cli.view.live_view import page_rows
from interlock.cli.view.progress import LINES_MAX, ControlEdge, PendingQuestion, Progress
from interlock.cli.view.terminal import without_echo
from interlock.cli.view.transcript import lines_of
from interlock.compose.crews import load_definition
from interlock.crew.definition import CrewDefinition

SIZES = [(1, 1), (7, 3), (20, 8), (45, 12), (60, 20), (80, 24), (200, 50)]
HOSTILE = [
    "\x1b[2J\x1b[H\x1b[31mred",
    "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link",
    "\x9b2J\x90q\x9c",
    "[bold red]markup[/] [/] [link=file:///x]x[/link] :skull:",
    "\r\x08\x08\x0b\x0c\x7f overwritten",
    "\u202eright to left\u2066\u200f\u200b\ufeff",
    "one\u2028two\u2029three\x85four\nfive\n[ROUTING] a -> b",
    "你好世界" * 60,
    "e" + "\u0301" * 5000,
    "❤️👩‍👩‍👧‍👦🇻🇳" * 50,
    "\t" * 300,
    "a" * 100_000,
    "",
]

NEWSROOM = """
version: "2.0"
name: newsroom
entry_point: desk
agents: [{id: desk}, {id: writer}, {id: photographer}, {id: chief}]
signals: [{name: "[COVER]", behavior: parallel, description: go}]
routing:
  signals:
    desk:
      - {signal: "[COVER]", target: team}
      - {signal: "[WAIT]", description: a person decides}
      - {signal: "[NEXT]", target: chief, type: route}
    chief:
      - {signal: "[DONE]", description: printed}
      - {signal: "[REJECT]", target: desk, type: route}
  parallel_groups:
    team: {agents: [writer, photographer], next_agent: desk}
"""
SCRIPT = """
replies:
  desk: ["Fire! [COVER]", "Print the name?\\n[WAIT]", {text: "[NEXT]", usage: {input_tokens: 7, cost: 0.25}}, "[NEXT]"]
  writer: [{error: away}, {text: It burned., usage: {input_tokens: 100, output_tokens: 20, cost: 0.5}}]
  photographer: [{error: no camera, retry: false}]
  chief: ["No. [REJECT]", "[DONE]"]
"""


class Told:
    """Events as they would come, one second apart."""

    def __init__(self, watched_ms: int = 0) -> None:
        self.progress, self.at = Progress(watched_ms), 0

    def __call__(self, kind: str, /, run: str = "r", **fields: Any) -> Progress:
        self.at += 1_000
        self.progress.apply_event({"run": run, "seq": self.at // 1_000, "at": self.at, "type": kind, **fields})
        return self.progress

    def delta(self, agent: str, text: str) -> Progress:
        self.progress.apply_event({"run": "r", "type": "model.delta", "agent": agent, "text": text})
        return self.progress


@pytest.fixture
def newsroom(tmp_path: Path) -> CrewDefinition:
    (tmp_path / "crew.yaml").write_text(NEWSROOM)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return load_definition(tmp_path)


def chain(tmp_path: Path, agents: int) -> CrewDefinition:
    names = [f"agent{n:03}" for n in range(agents)]
    routes = [f'    {a}: [{{signal: "[NEXT]", target: {b}, type: route}}]' for a, b in pairwise(names)]
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: chain\nentry_point: agent000\n'
        f"agents: [{', '.join(f'{{id: {name}}}' for name in names)}]\n"
        "routing:\n  signals:\n" + "\n".join(routes) + f'\n    {names[-1]}: [{{signal: "[DONE]"}}]\n'
    )
    return load_definition(tmp_path)


def shown_page(crew: CrewDefinition, progress: Progress, size: tuple[int, int], now_ms: int = 0) -> list[str]:
    return [text.plain for text in page_rows(GraphLayout(crew), crew, progress, size, now_ms)]


# The fold


async def test_the_fold_of_a_real_run_has_the_engines_own_counts(newsroom: CrewDefinition, tmp_path: Path) -> None:
    progress = Progress()

    async with Interlock(tmp_path / "data", script=tmp_path / "script.yaml") as box:
        run = await box.start(newsroom, "go")
        async for event in box.runner.follow(run.id):
            progress.apply_event(event)
        assert (progress.status, list(progress.questions.values())) == (
            "paused",
            [PendingQuestion((await run.result()).token, "desk", "Print the name?")],
        )
        run = await box.resume(run.id, "yes")
        async for event in box.runner.follow(run.id, progress.seq):
            progress.apply_event(event)
        result, state = await run.result(), await box.state(run.id)
    assert (progress.status, progress.reason) == (result.status, result.reason) == ("completed", "signal:[DONE]")
    assert progress.usage == result.usage
    assert (progress.handoffs, progress.seq) == (state.handoffs, state.seq)
    assert (progress.work, progress.questions) == ({}, {})
    assert progress.branches == {"team": {"writer": "ok", "photographer": "failed"}}
    assert progress.edges_taken == {
        ControlEdge("desk", "[COVER]", "team"): 1,
        ControlEdge("team", "", "desk"): 1,
        ControlEdge("desk", "[WAIT]", "desk"): 1,
        ControlEdge("desk", "[NEXT]", "chief"): 2,
        ControlEdge("chief", "[REJECT]", "desk"): 1,
        ControlEdge("chief", "[DONE]", ""): 1,
    }
    drawn = {arrow.way for place in GraphLayout(newsroom).nodes for arrow in place.arrows}
    assert set(progress.edges_taken) <= drawn, "every way that was taken is an arrow of the graph"


def test_a_call_is_at_work_from_its_beginning_to_its_end() -> None:
    told = Told()
    told("run.started")
    told("model.called", agent="desk", call="1", attempt=0)
    assert told.delta("desk", "Once ").work["r", "1"].activity == "replies"
    assert told.delta("desk", "upon").work["r", "1"].tail == "Once upon"
    told("model.failed", agent="desk", call="1", error="away", retry=True, usage={"output_tokens": 4})
    assert told.progress.work["r", "1"].activity == "waits to retry"
    told("model.called", agent="desk", call="2", attempt=1)
    assert [work.activity for work in told.progress.work.values()] == ["thinks, attempt 2"]
    usage = {"calls": 0, "input_tokens": 3, "output_tokens": 4, "cost_micros": 5}
    told("model.replied", agent="desk", call="2", text="", usage=usage)
    told("tool.called", agent="desk", call="3", name="look", arguments={"at": 1})
    assert [work.activity for work in told.progress.active_calls()] == ["uses look"]
    assert told("tool.returned", call="3", ok=True, output="").work == {}
    assert (told.progress.usage.calls, told.progress.usage.tokens, told.progress.usage.cost_micros) == (2, 11, 5)


def test_a_branch_that_is_late_is_at_work_no_more() -> None:
    told = Told()
    told("group.started", group="team", members=["a", "b"])
    for n, agent in enumerate("ab"):
        told("model.called", agent=agent, call=str(n), attempt=0)
    told("branch.finished", agent="a", status="late", error="")
    assert [work.agent for work in told.progress.active_calls()] == ["b"]
    assert told.progress.branches["team"] == {"a": "late", "b": "working"}


def test_elapsed_time_leaves_out_pauses_and_the_time_before_somebody_looked() -> None:
    told = Told()
    told("run.started")
    told("turn.started", agent="a")
    assert told.progress.working_ms(2_500) == 1_500
    told("run.paused", agent="a", token="t", reason="question")
    assert told.progress.working_ms(99_000) == 2_000
    told.at = 50_000
    told("run.resumed", token="t")
    assert told.progress.working_ms(53_000) == 4_000
    recovered = Told(watched_ms=80_000)
    recovered("run.started")
    recovered("model.called", agent="a", call="1", attempt=0)
    assert recovered.progress.working_ms(81_000) == 1_000
    assert recovered.progress.work["r", "1"].since_ms == 80_000


def test_a_crew_that_is_called_costs_speaks_and_asks_and_moves_nothing() -> None:
    told = Told()
    child: dict[str, Any] = {"run": "r~4.0", "path": ["experts"]}
    told("run.started")
    told("turn.started", agent="desk")
    told("child.started", crew="experts", child="r~4.0", call="4.0", input="Why?")
    told("turn.started", agent="desk", **child)
    told("model.called", agent="desk", call="1", attempt=0, **child)
    assert [(work.name, work.activity) for work in told.progress.active_calls()] == [("experts/desk", "thinks")]
    assert (told.progress.position, told.progress.handoffs, told.progress.visits["desk"]) == ("experts", 1, 1)
    assert (told.progress.is_working("experts"), told.progress.is_working("desk")) == (True, False)
    told("model.replied", agent="desk", call="1", text="So?", usage={"input_tokens": 9}, **child)
    told("input.requested", agent="desk", question="So?", token="r~4.0:7.1", **child)
    told("run.paused", agent="desk", reason="signal:[WAIT]", token="r~4.0:7.1", **child)
    assert (told.progress.status, told.progress.usage.input_tokens, told.progress.seq) == ("running", 9, 3)
    assert told.progress.questions == {"r~4.0:7.1": PendingQuestion("r~4.0:7.1", "experts/desk", "So?")}
    assert (told.progress.has_open_question("experts"), told.progress.has_open_question("desk")) == (True, False)
    assert [line.text for line in told.progress.lines] == [
        "  experts started: Why?",
        "  experts/desk:",
        "    So?",
        "    experts/desk waits: signal:[WAIT]",
    ]


def test_a_crew_that_is_given_a_task_is_at_work_and_control_stays_where_it_is() -> None:
    told = Told()
    told("run.started")
    told("turn.started", agent="desk")
    told("child.started", crew="experts", child="r~4.0", call="4.0", input="Why?", message_id="r:m1")
    assert (told.progress.position, told.progress.handoffs, told.progress.is_working("experts")) == ("desk", 0, True)
    told("child.finished", crew="experts", child="r~4.0", status="completed", reason="signal:[END]")
    told("turn.started", agent="writer")
    assert (told.progress.is_working("experts"), told.progress.edges_taken) == (False, {})


def test_a_child_that_is_answered_goes_on_and_one_that_is_over_asks_no_more() -> None:
    told = Told()
    child: dict[str, Any] = {"run": "r~4.0", "path": ["experts"]}
    told("run.started")
    for n in (0, 1):
        told("child.started", crew="experts", child=f"r~4.{n}", call=f"4.{n}", input="Why?")
    assert told.progress.handoffs == 1, "what one reply calls is one departure"
    for token in ("r~4.0:7.1", "r~4.0:8.1", "r~4.0~5.0:7.1", "r~4.1:7.1"):
        told("input.requested", run=token.partition(":")[0], path=["experts"], agent="a", question="?", token=token)
    told("run.paused", agent="experts/a", reason="signal:[WAIT]", token="r~4.0:7.1")
    assert (told.progress.status, told.progress.working_ms(99_000)) == ("paused", 7_000)
    told("child.goes_on", call="4.0")
    told("input.given", token="r~4.0:7.1", **child)
    told("child.goes_on", call="4.1")
    assert (told.progress.status, told.progress.working_ms(11_000)) == ("running", 9_000)
    assert len(told.progress.questions) == 3
    told("run.finished", status="stopped", reason="timeout", **child)
    assert (told.progress.status, list(told.progress.questions)) == ("running", ["r~4.1:7.1"])
    told("child.finished", crew="experts", child="r~4.0", status="stopped", reason="timeout")
    assert (told.progress.is_working("experts"), told.progress.children) == (True, {"r~4.1": "experts"})
    told("child.finished", crew="experts", child="r~4.1", status="cancelled", reason="cancelled")
    assert (told.progress.is_working("experts"), told.progress.questions) == (False, {})
    told("turn.started", agent="desk")
    assert told.progress.edges_taken == {ControlEdge("experts", "", "desk"): 2}


def test_what_is_kept_is_bounded() -> None:
    told = Told()
    told("model.called", agent="a", call="1", attempt=0)
    for _ in range(50):
        told.delta("a", "x" * 1_000)
    told("model.replied", agent="b", call="2", text="line\n" * 10 * LINES_MAX, usage={})
    assert len(told.progress.work["r", "1"].tail) < 1_000
    assert len(told.progress.lines) == LINES_MAX


# The page


def at_work(newsroom_lines: int = 3) -> Told:
    told = Told()
    told("run.started")
    told("turn.started", agent="desk")
    for n in range(newsroom_lines):
        told("model.replied", agent="desk", call=f"x{n}", text=f"line {n}", usage={"input_tokens": 1_200})
    told("decision", agent="desk", verb="fork", signal="[COVER]", target="team")
    told("group.started", group="team", members=["writer", "photographer"])
    told("model.called", agent="writer", call="1", attempt=0)
    told("model.called", agent="photographer", call="2", attempt=0)
    told("branch.finished", agent="photographer", status="ok", error="")
    told.delta("writer", "The harbour burned")
    return told


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
def test_a_page_shows_the_graph_who_works_what_was_said_and_what_it_cost(
    newsroom: CrewDefinition, size: tuple[int, int]
) -> None:
    told = at_work()
    rows = shown_page(newsroom, told.progress, size, now_ms=told.at + 1_000)
    whole = "\n".join(rows)
    assert rows[0].startswith("newsroom  running")
    assert "[COVER] ━▶ team" in whole
    assert "[WAIT] ─▷ desk" in whole
    assert [row[3:7] for row in rows if row.startswith("▶")] == ["team"]
    assert "photographer ✓" in whole
    assert any("writer" in row and "3.0 s" in row and row.rstrip().endswith("The harbour burned") for row in rows)
    assert "  line 2" in rows
    assert "1 of 30 handoffs" in rows[-2]
    assert rows[-1].startswith("10.0 s · 3 model calls · 3,600 tokens")


def test_a_wide_page_shows_how_much_was_cached(newsroom: CrewDefinition) -> None:
    told = at_work()
    told("model.replied", agent="desk", call="y", text="", usage={"input_tokens": 400, "cache_read_tokens": 3_000})
    rows = shown_page(newsroom, told.progress, (200, 50), now_ms=told.at + 1_000)
    assert "(4,000 in, 75% cached, 0 out)" in rows[-1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("agents", [2, 100])
def test_a_page_fits_every_terminal_and_every_crew(tmp_path: Path, size: tuple[int, int], agents: int) -> None:
    crew, told = chain(tmp_path, agents), at_work(80)
    for n in range(agents):
        told("turn.started", agent=f"agent{n:03}")
        told("model.called", agent=f"agent{n:03}", call=f"c{n}", attempt=0)
        told("handoff", **{"from": f"agent{n:03}", "to": "x", "signal": "[NEXT]"})
    rows = shown_page(crew, told.progress, size)
    assert len(rows) == size[1]
    assert max(map(cell_len, rows)) <= size[0]


def test_of_a_long_crew_the_neighbourhood_is_shown_and_how_much_is_not(tmp_path: Path) -> None:
    crew, told = chain(tmp_path, 100), Told()
    told("run.started")
    told("turn.started", agent="agent050")
    rows = shown_page(crew, told.progress, (80, 24))
    named = [row[3:11] for row in rows if row[3:8] == "agent"]
    assert named[len(named) // 2] == "agent050"
    assert named == sorted(named)
    assert len(named) > 5
    assert f"    … and {100 - len(named)} more in this crew" in rows


def test_many_workers_leave_room_for_the_rest(newsroom: CrewDefinition) -> None:
    told = Told()
    for n in range(40):
        told("model.called", agent=f"a{n}", call=str(n), attempt=0)
    rows = shown_page(newsroom, told.progress, (80, 24))
    assert len(rows) == 24
    assert any(row.startswith("  … and ") for row in rows)
    assert "── transcript" in "".join(rows)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("size", [(60, 20), (80, 24), (3, 20)])
def test_text_of_agents_is_shown_and_never_acts(newsroom: CrewDefinition, text: str, size: tuple[int, int]) -> None:
    told = at_work()
    told.delta("writer", text)
    told("tool.called", agent=text or "a", call="9", name=text, arguments={"x": text})
    told("model.failed", agent="desk", call="8", error=text, retry=True, usage={})
    told("model.replied", agent="desk", call="7", text=text, usage={})
    told("warning", code="c", message=text)
    told("input.requested", agent=text, question=text, token="t")
    told("run.paused", agent=text, token="t", reason=f"signal:{text}")
    drawn = page_rows(GraphLayout(newsroom), newsroom, told.progress, size, 0)
    assert all(row.plain.isprintable() for row in drawn)
    assert max(cell_len(row.plain) for row in drawn) <= size[0]
    styles = {str(span.style) for row in drawn for span in row.spans}
    assert not any("link" in style or style == "bold red" for style in styles)


@pytest.mark.parametrize("text", HOSTILE)
def test_lines_of_the_transcript_are_single_and_safe(text: str) -> None:
    events: list[dict[str, Any]] = [
        {"type": "model.replied", "agent": text, "text": text},
        {"type": "tool.called", "agent": text, "name": text, "arguments": text},
        {"type": "tool.called", "agent": text, "name": text, "arguments": {text: [text]}},
        {"type": "tool.returned", "ok": False, "output": text},
        {"type": "model.failed", "agent": text, "error": text},
        {"type": "handoff", "from": text, "to": text, "signal": text},
    ]
    lines = [lines_of(event) for event in events]
    assert all(lines), "every one of them is told"
    assert all(line.text.isprintable() for each in lines for line in each)


def test_a_tools_arguments_are_told_whole() -> None:
    event = {"type": "tool.called", "agent": "a", "name": "look", "arguments": {"place": "harbour"}}
    assert [line.text for line in lines_of(event)] == ['  a uses look {"place":"harbour"}']


@pytest.mark.parametrize("width", range(12))
def test_the_end_of_a_growing_text_fits(width: int) -> None:
    assert all(cell_len(tail_of(text[:3_000], width)) <= width for text in HOSTILE)
    assert tail_of("The harbour\nburned down", 12) == "…burned down"


def test_long_lines_are_broken_between_words_and_keep_their_indent() -> None:
    assert list(wrap_words("  one two three", 9)) == ["  one two", "  three"]
    assert list(wrap_words("  你好世界", 7)) == ["  你好", "  世界"]
    assert list(wrap_words("", 9)) == [""]


@pytest.mark.parametrize(
    ("elapsed", "words"), [(0, "0.0 s"), (59_949, "59.9 s"), (125_000, "2 min 05 s"), (7_500_000, "2 h 05 min")]
)
def test_durations_are_written_for_people(elapsed: int, words: str) -> None:
    assert duration_text(elapsed) == words


# The keyboard


def test_what_is_typed_while_nobody_asks_is_neither_shown_nor_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave) as keyboard, os.fdopen(master, "rb+", buffering=0) as person:
        monkeypatch.setattr(sys, "stdin", keyboard)
        with without_echo():
            person.write(b"too early\n")
            assert select.select([keyboard], [], [], 10)[0], "the line has arrived"
            assert not termios.tcgetattr(keyboard)[3] & termios.ECHO
        assert termios.tcgetattr(keyboard)[3] & termios.ECHO
        assert not select.select([keyboard, person], [], [], 0)[0]
