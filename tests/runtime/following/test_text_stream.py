"""The text of a run while its models reply."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock import END, Agent, Crew, Interlock, Pause, load_crew
from interlock.compose.run_handle import RunHandle
from interlock.engine.events import ToolRequest
from interlock.errors import ModelUnavailable
from interlock.ports import Delta, ModelReply, ModelRequest
from interlock.runtime import watchers
from interlock.runtime.following.text_stream import TextPiece
from interlock.testing import ScriptedModel

DUO = """\
version: "2.0"
name: duo
entry_point: a
agents: [{id: a}, {id: b, is_terminal: true}]
routing: {signals: {a: [{signal: "[NEXT]", target: b}]}}
"""
GROUP = """\
version: "2.0"
name: trio
entry_point: a
agents: [{id: a}, {id: b}, {id: c}, {id: d, is_terminal: true}]
routing:
  parallel_groups: {both: {agents: [b, c], next_agent: d}}
  signals: {a: [{signal: "[BOTH]", type: parallel, target: both}]}
signals: [{name: "[BOTH]", behavior: parallel}]
"""
WAITING = """\
version: "2.0"
name: waiting
entry_point: a
agents: [{id: a}, {id: b}]
routing:
  signals: {a: [{signal: "[NEXT]", target: b}], b: [{signal: "[END]", type: terminate}]}
  agent_behaviors: {b: {wait_for_signal: true}}
"""
SOLO = """\
version: "2.0"
name: solo
entry_point: b
agents: [{id: b, is_terminal: true}]
"""


class Gates:
    """A model whose pieces are let through one by one."""

    def __init__(self, replies: dict[str, list[str]]) -> None:
        self.replies = replies
        self.told: dict[str, asyncio.Queue[str]] = {agent: asyncio.Queue() for agent in replies}
        self.said: dict[str, int] = dict.fromkeys(replies, 0)
        self.moved = asyncio.Condition()

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        pieces = self.replies[request.agent]
        for piece in pieces:
            await self.told[request.agent].get()
            yield Delta(piece)
            async with self.moved:
                self.said[request.agent] += 1
                self.moved.notify_all()
        await self.told[request.agent].get()
        yield ModelReply(text="".join(pieces))

    def let(self, agent: str, count: int = 1) -> None:
        for _ in range(count):
            self.told[agent].put_nowait("")

    async def until_said(self, agent: str, count: int) -> None:
        async with self.moved:
            await self.moved.wait_for(lambda: self.said[agent] >= count)


def crew_of(folder: Path, text: str = DUO, *tools: Callable[..., Any]) -> Crew:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "crew.yaml").write_text(text, "utf-8")
    return load_crew(folder, tools=tools)


async def texts_of(run: RunHandle) -> list[TextPiece]:
    return [piece async for piece in run.text_stream()]


async def next_piece(stream: AsyncGenerator[TextPiece]) -> TextPiece:
    async with asyncio.timeout(5):
        return await anext(stream)


async def test_pieces_come_as_they_are_said_without_marks(tmp_path: Path) -> None:
    model = Gates({"a": ["Hel", "lo *", "*[NE", "XT]", "**"], "b": ["By", "e."]})
    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_of(tmp_path / "crew"), "hi")
        stream = run.text_stream()
        model.let("a")
        first = await next_piece(stream)
        assert (first, first.agent, first.run, type(first)) == ("Hel", "a", run.id, TextPiece)
        model.let("a")
        assert await next_piece(stream) == "lo"
        model.let("a", 4)
        model.let("b")
        second = await next_piece(stream)
        assert (second, second.agent) == ("\n\nBy", "b")
        model.let("b", 2)
        assert [piece async for piece in stream] == ["e."]
        assert (await run.result()).text == "Bye."
        assert "".join(await texts_of(run)) == "Hello\n\nBye."


async def test_what_was_said_before_the_stream_is_attached_is_not_lost(tmp_path: Path) -> None:
    model = Gates({"a": ["One ", "two ", "three"], "b": ["."]})
    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_of(tmp_path / "crew"), "hi")
        model.let("a", 2)
        await model.until_said("a", 1)
        late = run.text_stream()
        await model.until_said("a", 2)
        assert await next_piece(late) in ("One", "One two")  # at once, and not only with the next piece
        model.let("a", 2)
        await late.aclose()
        await box.cancel(run.id)


async def test_a_slow_reader_misses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "QUEUE_MAX", 3)
    words = [f"w{n} " for n in range(50)]
    model = Gates({"a": [*words, "[NEXT]"], "b": words})
    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_of(tmp_path / "crew"), "hi")
        stream = run.text_stream()
        model.let("a")
        pieces = [await next_piece(stream)]
        model.let("a", 51)
        model.let("b", 51)
        await box.runner.wait_until_settled(run.id)
        pieces += [piece async for piece in stream]
    said = "".join(words).strip()
    assert "".join(pieces) == f"{said}\n\n{said}"


async def test_replies_at_the_same_time_come_one_after_the_other(tmp_path: Path) -> None:
    model = Gates({"a": ["go [BOTH]"], "b": ["bb1 ", "bb2"], "c": ["cc1 ", "cc2"], "d": ["done"]})
    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_of(tmp_path / "crew", GROUP), "hi")
        following = asyncio.ensure_future(texts_of(run))
        model.let("a", 2)
        model.let("c", 3)
        await model.until_said("c", 2)
        model.let("b", 3)
        model.let("d", 2)
        pieces = await following
        assert "".join(pieces) == "go\n\nbb1 bb2\n\ncc1 cc2\n\ndone"
        assert "".join(piece for piece in pieces if piece.agent == "c") == "\n\ncc1 cc2"
        assert "".join(await texts_of(run)) == "".join(pieces)


async def test_a_stream_ends_when_the_run_is_paused_and_tells_all_after_it(tmp_path: Path) -> None:
    replies = iter(["hi [NEXT]", "which?", "fine [END]"])
    crew = crew_of(tmp_path / "crew", WAITING)
    async with Interlock(tmp_path / "data", models=lambda _: next(replies)) as box:
        run = await box.start(crew, "hi")
        assert "".join(await texts_of(run)) == "hi\n\nwhich?"
        run = await box.resume(run.id, "this")
        assert "".join(await texts_of(run)) == "hi\n\nwhich?\n\nfine"


async def test_words_beside_tool_calls_are_text_and_empty_replies_are_not(tmp_path: Path) -> None:
    def look() -> str:
        """Looks."""
        return "seen [END]"

    call = ToolRequest(id="1", name="look", arguments="{}")
    said = ModelReply(text="Let me see [NEXT].", tool_calls=(call,))
    told: list[str | ModelReply] = [said, ModelReply(text="", tool_calls=(call,)), "So. [NEXT]", "Bye"]
    replies = iter(told)
    crew = crew_of(tmp_path / "crew", DUO.replace("{id: a}", "{id: a, tools: [look]}"), look)
    async with Interlock(tmp_path / "data", models=lambda _: next(replies), tools=[look]) as box:
        run = await box.start(crew, "hi")
        assert "".join(await texts_of(run)) == "Let me see .\n\nSo.\n\nBye"


async def test_a_reply_that_breaks_off_stays_and_the_next_attempt_follows(tmp_path: Path) -> None:
    class Breaking:
        count = 0

        async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            self.count += 1
            yield Delta("Half ")
            if self.count == 1:
                raise ModelUnavailable("away")
            yield Delta("and whole")
            yield ModelReply(text="Half and whole")

    model = Breaking()
    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(crew_of(tmp_path / "crew", SOLO), "hi")
        assert "".join(await texts_of(run)) in ("Half\n\nHalf and whole", "Half and whole")
        assert "".join(await texts_of(run)) == "Half and whole"


@pytest.mark.parametrize("whole", ["other words", "Hal", ""])
async def test_a_model_that_says_other_pieces_than_its_reply_is_corrected(tmp_path: Path, whole: str) -> None:
    shown = asyncio.Event()

    class Lying:
        async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            yield Delta("Half ")
            await shown.wait()
            yield ModelReply(text=whole)

    async with Interlock(tmp_path / "data", models=Lying()) as box:
        run = await box.start(crew_of(tmp_path / "crew", SOLO), "hi")
        stream = run.text_stream()
        assert await next_piece(stream) == "Half"
        shown.set()
        assert [piece async for piece in stream] == ([f"\n\n{whole}"] if whole else [])


async def test_a_run_of_another_process_gives_whole_replies(tmp_path: Path) -> None:
    """A second box on the same folder is another owner."""
    model = Gates({"a": ["one ", "two [NEXT]"], "b": ["three"]})
    async with (
        Interlock(tmp_path / "data", models=model) as there,
        Interlock(tmp_path / "data", models=model) as here,
    ):
        run = await there.start(crew_of(tmp_path / "crew"), "hi")
        stream = here.run(run.id).text_stream()
        model.let("a", 3)
        assert await next_piece(stream) == "one two"
        model.let("b", 2)
        assert [piece async for piece in stream] == ["\n\nthree"]


@pytest.mark.parametrize("is_over", [False, True])
async def test_after_a_wait_only_what_is_said_since_then(tmp_path: Path, is_over: bool) -> None:
    model = ScriptedModel({"a": ["First [WAIT]", "Second [END]"]})
    async with Interlock(tmp_path / "data", models=model) as box:
        run = await box.start(Agent("a", on={"[WAIT]": Pause(), "[END]": END}), "hi")
        assert "".join(await texts_of(run)) == "First"
        heard = (await box.state(run.id)).seq
        run = await box.resume(run.id, "go on")
        if is_over:
            await run.result()
        assert [piece async for piece in run.text_stream(after=heard)] == ["Second"]
        assert "".join(await texts_of(run)) == "First\n\nSecond"


WORDS = ("[NEXT]", "[next]", "**[NEXT]**", "_[ Next ]_", "[NEX", "T]", "a", " ", "\n", "`", "*", "[x]", "é", "\ud800")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(WORDS), max_size=12).map("".join),
    st.lists(st.integers(0, 40), max_size=6),
    st.sampled_from(["text", "tool"]),
    st.booleans(),
)
def test_any_reply_in_any_pieces_gives_the_text_of_the_result(
    tmp_path_factory: pytest.TempPathFactory, text: str, cuts: list[int], mode: str, slow: bool
) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts})
    pieces = [text[a:b] for a, b in pairwise([0, *places, len(text)])]

    class Chunks:
        async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
            for piece in pieces:
                yield Delta(piece)
                if slow:
                    await asyncio.sleep(0)
            yield ModelReply(text=text)

    crew = SOLO + f"settings: {{signal_mode: {mode}}}\n"
    folder = tmp_path_factory.mktemp("run")

    async def play() -> tuple[str, str, str]:
        async with Interlock(folder / "data", models=Chunks()) as box:
            run = await box.start(crew_of(folder / "crew", crew), "hi")
            live = "".join(await texts_of(run))
            return live, "".join(await texts_of(run)), (await run.result()).text

    live, over, result = asyncio.run(play())
    assert live == over == result
