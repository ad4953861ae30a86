"""cut_on_signal in real runs: generation stops, watchers see the text up to the cut, and its cost is estimated."""

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock
from interlock.compose.crews import load_definition
from interlock.engine.events import ToolRequest, Usage
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.routing.stream import ReplyScanner
from interlock.ports import Delta, ModelReply, ModelRequest
from interlock.runtime.calls.reply_stream import StreamedReply, read_reply_until_signal
from interlock.runtime.calls.split_pieces import CutPieces

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, cost_limits: {input_token_price_per_million: 1, output_token_price_per_million: 2}}, {id: b}]
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[END]"}]
    b: [{signal: "[NEXT]", target: a}, {signal: "[END]"}]
settings: {SETTINGS}
"""
RAMBLING = "So.\n[END]\nAnd then, [NEXT] " + "on and on " * 200
USAGE = Usage(input_tokens=7, output_tokens=9)


class Streaming:
    """Says the same in pieces to everybody, and knows how far it came and whether it was closed."""

    def __init__(self, text: str, cut_up: Callable[[str], list[str]], tool_calls: tuple[ToolRequest, ...] = ()) -> None:
        self.text, self.cut_up, self.tool_calls = text, cut_up, tool_calls
        self.given, self.closed = 0, 0
        self.asked: list[ModelRequest] = []

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        self.asked.append(request)
        try:
            for piece in self.cut_up(self.text):
                self.given += len(piece)
                yield Delta(piece)
            calls = self.tool_calls if len(self.asked) == 1 else ()
            yield ModelReply(text=self.text, usage=USAGE, tool_calls=calls)
        finally:
            self.closed += 1


async def told(folder: Path, model: Any, settings: str) -> list[dict[str, Any]]:
    """Every event of a run, pieces included."""

    (folder / "crew.yaml").write_text(CREW.replace("SETTINGS", settings), "utf-8")
    async with Interlock(folder / "data", models=model) as box:
        run = await box.start(load_definition(folder), "go")
        return [event async for event in box.runner.follow(run.id)]


def of_type(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


async def test_a_stream_is_closed_at_the_cut(tmp_path: Path) -> None:
    model = Streaming(RAMBLING, list)
    events = await told(tmp_path, model, "cut_on_signal: true")
    (replied,) = of_type(events, "model.replied")
    assert (replied["text"], replied["cut"], replied["estimated"]) == ("So.\n[END]", True, True)
    assert of_type(events, "run.finished")[0]["reason"] == "signal:[END]"
    assert (model.given, model.closed) == (len("So.\n[END]\n"), 1)


async def test_without_the_setting_a_reply_is_heard_out(tmp_path: Path) -> None:
    model = Streaming(RAMBLING + "\n[END]", list)
    (replied,) = of_type(await told(tmp_path, model, "cut_on_signal: false"), "model.replied")
    assert (replied["text"], replied["cut"], replied["usage"]["input_tokens"]) == (model.text, False, 7)


async def test_what_a_cut_reply_cost_is_an_upper_estimate_at_the_agents_prices(tmp_path: Path) -> None:
    events = await told(tmp_path, Streaming(RAMBLING, list), "cut_on_signal: true")
    usage = of_type(events, "run.finished")[0]["usage"]
    assert usage["output_tokens"] == len("So.\n[END]") // 3
    assert usage["input_tokens"] > 40, "its instructions were shown too"
    assert usage["cost_micros"] == usage["input_tokens"] + 2 * usage["output_tokens"]


@pytest.mark.parametrize(
    ("cut_up", "seen"), [(lambda text: [text[:5], text[5:]], ["So.\n[", "END]"]), (list, list("So.\n[END]"))]
)
async def test_watchers_see_what_is_kept_and_nothing_after_it(
    tmp_path: Path, cut_up: Callable[[str], list[str]], seen: list[str]
) -> None:
    (tmp_path / "crew.yaml").write_text(CREW.replace("SETTINGS", "cut_on_signal: true"), "utf-8")
    table, heard = RoutingTable(load_definition(tmp_path)), list[str]()
    request = ModelRequest(key="r:1", agent="a", number=1, system="", messages=())
    pieces = Streaming(RAMBLING, cut_up).reply(request)
    result = await _heard(pieces, heard.append, lambda: ReplyScanner(table, "a"))
    assert (heard, result.cut) == (seen, True)


def _ignore(text: str, *, takes_back: bool = False) -> None:
    """No reply here holds reasoning."""


async def _heard(pieces: Any, tell: Callable[[str], None], listen: Callable[[], ReplyScanner]) -> StreamedReply:
    heard = await read_reply_until_signal(pieces, CutPieces(listen, tell, _ignore))
    await pieces.aclose()
    return heard


async def test_a_reply_that_comes_at_once_is_cut_at_the_same_place_and_its_cost_is_known(tmp_path: Path) -> None:
    events = await told(tmp_path, Streaming(RAMBLING, lambda _: []), "cut_on_signal: true")
    (replied,) = of_type(events, "model.replied")
    assert (replied["text"], replied["cut"], replied["estimated"]) == ("So.\n[END]", True, False)
    assert replied["usage"]["output_tokens"] == 9


async def test_a_reply_that_comes_at_once_with_tool_calls_is_kept_whole(tmp_path: Path) -> None:
    call = ToolRequest(id="t", name="look", arguments="{}")
    first, second = of_type(
        await told(tmp_path, Streaming(RAMBLING, lambda _: [], (call,)), "cut_on_signal: true"), "model.replied"
    )
    assert (first["text"], first["cut"]) == (RAMBLING, False)
    assert second["cut"]


@pytest.mark.parametrize("seed", range(12))
async def test_any_pieces_give_the_same_run(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    parts = chance.choices(["[END]", "[NEXT]", "\n", "\r\n", "```", "word", " ", "[STOP]", "\n[NEXT]\n"], k=20)
    text = "".join(parts) + "\n[END]"

    def pieces(whole: str) -> list[str]:
        places = sorted(chance.sample(range(len(whole) + 1), 8))
        return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]

    async def outcome(cut_up: Callable[[str], list[str]], folder: str) -> list[tuple[str, str]]:
        (tmp_path / folder).mkdir()
        settings = "cut_on_signal: true, max_handoffs: 4"
        events = await told(tmp_path / folder, Streaming(text, cut_up), settings)
        said = [("said", event["text"]) for event in of_type(events, "model.replied")]
        return [*said, *((event["reason"], event["output"]) for event in of_type(events, "run.finished"))]

    whole = await outcome(lambda whole: [whole], "whole")
    assert await outcome(pieces, "pieces") == whole
    assert await outcome(list, "letters") == whole
    assert await outcome(lambda _: [], "at once") == whole


async def test_in_tool_mode_agents_are_given_the_tool_that_steers(tmp_path: Path) -> None:
    call = ToolRequest(id="t", name="emit_signal", arguments='{"name": "END", "reason": "done"}')
    model = Streaming("All is said.", list, (call,))
    events = await told(tmp_path, model, "signal_mode: tool")
    (tool,) = model.asked[0].tools
    assert (tool.name, tool.parameters["properties"]["name"]["enum"]) == ("emit_signal", ["NEXT", "END"])
    assert len(model.asked) == 1, "no call is made just to end a turn"
    finished = of_type(events, "run.finished")[0]
    assert (finished["reason"], finished["output"]) == ("signal:[END]", "All is said.")


@pytest.mark.parametrize(("constrained", "codes"), [(True, []), (False, ["not-constrained"])])
async def test_a_model_is_handed_its_ending_and_says_whether_it_kept_to_it(
    tmp_path: Path, constrained: bool, codes: list[str]
) -> None:
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> ModelReply:
        asked.append(request)
        return ModelReply(text="So.\n[END]", constrained=constrained)

    events = await told(tmp_path, model, "signal_mode: constrained")
    assert [event["code"] for event in of_type(events, "warning")] == codes
    assert asked[0].ending is not None and asked[0].ending.marks == ("[NEXT]", "[END]")
    assert of_type(events, "run.finished")[0]["reason"] == "signal:[END]"
