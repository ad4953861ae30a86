"""A server that can hold a reply to an ending is told so in its own words; one that cannot is not."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.endpoint import Endpoint, Server
from interlock.engine.prompt.grammar import ending_in
from interlock.engine.state import TurnMessage
from interlock.errors import ModelUnavailable
from interlock.ports import Delta, ModelReply, ModelRequest, ToolSchema
from tests.adapters.hostile_server import hostile_server, replies, said

ENDING = ending_in(["[NEXT]", "[END]"])
REQUEST = ModelRequest(
    key="r:1", agent="a", number=1, system="", messages=[TurnMessage(role="user", text="hi")], ending=ENDING
)
LOOK = ToolSchema(name="look", description="", parameters={"type": "object", "properties": {}})


async def asked(
    way: str, text: str, request: ModelRequest = REQUEST, sentences: int = 0
) -> tuple[dict[str, Any], list[str], ModelReply]:
    async with hostile_server(replies(said(text))) as server:
        place = Endpoint(server=Server("test:m at here"), url=server.url, constrains=way, sentences=sentences)
        model, deltas = OpenAICompatibleModel(place, "m"), []
        try:
            async with asyncio.timeout(10):
                async for piece in model.reply(request):
                    if isinstance(piece, Delta):
                        deltas.append(piece.text)
                    elif isinstance(piece, ModelReply):
                        reply = piece
        finally:
            await model.close()
        return server.asked[0].body, deltas, reply


@pytest.mark.parametrize("way", ["grammar", "guided_grammar"])
async def test_a_grammar_goes_with_the_call_and_the_reply_says_that_it_was_held_to_it(way: str) -> None:
    body, deltas, reply = await asked(way, "Well.\n[END]")
    assert body[way] == ENDING.grammar
    assert (reply.text, "".join(deltas), reply.constrained) == ("Well.\n[END]", "Well.\n[END]", True)


async def test_a_small_model_is_kept_short() -> None:
    assert (await asked("grammar", "Well.\n[END]", sentences=2))[0]["grammar"] == ENDING.brief(2)


async def test_the_answer_under_a_schema_becomes_text_and_mark_and_its_pieces_are_not_shown() -> None:
    body, deltas, reply = await asked("schema", json.dumps({"text": "Well.", "signal": "[END]"}))
    assert body["response_format"]["json_schema"]["schema"] == ENDING.schema
    assert (reply.text, deltas, reply.constrained) == ("Well.\n[END]", [], True)


async def test_an_answer_that_is_not_what_it_was_constrained_to_is_asked_for_again() -> None:
    with pytest.raises(ModelUnavailable, match="not the JSON it was constrained to"):
        await asked("schema", "Well. [END]")


@pytest.mark.parametrize(
    ("way", "request_"),
    [("", REQUEST), ("grammar", msgspec.structs.replace(REQUEST, tools=(LOOK,)))],
    ids=["a server that cannot", "a call with tools"],
)
async def test_what_cannot_be_constrained_is_asked_in_text_and_says_so(way: str, request_: ModelRequest) -> None:
    body, _, reply = await asked(way, "Well.\n[END]", request_)
    assert not {"grammar", "guided_grammar", "response_format"} & set(body)
    assert not reply.constrained
