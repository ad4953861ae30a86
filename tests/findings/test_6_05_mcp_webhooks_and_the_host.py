"""Finding 6.5, more doors: tools of MCP servers, webhooks, and messages of the host program speak as nobody else."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from interlock import Interlock, load_crew
from interlock.adapters.config.webhook_settings import IncomingHook
from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.adapters.webhooks.verification import TOKEN_HEADER, incoming_webhooks
from interlock.messages import HOST, register, unregister
from tests.findings.forged_speech import TEXTS, read_tags
from tests.findings.puppets import Puppet, call, names, speakers
from tests.server.office import ADDRESS, open_office

MCP_SERVER = Path(__file__).parents[1] / "adapters" / "mcp_tool_server.py"
CHUNK = 20
CHUNKS = [TEXTS[at : at + CHUNK] for at in range(0, len(TEXTS), CHUNK)]

ASKING = """\
version: "2.0"
name: asking
entry_point: a
agents: [{id: a, is_terminal: true, tools: ["mcp:words/say"]}]
settings: {max_rounds: 1000, max_total_tool_output_chars: 1000000}
"""
OFFICE = """\
version: "2.0"
name: office
entry_point: clerk
agents:
  - {id: clerk, tools: [send_message]}
  - {id: boss, is_terminal: true}
subscriptions: {clerk: [{pattern: "note:*", silent: true}]}
routing: {signals: {clerk: [{signal: "[WAIT]"}, {signal: "[NEXT]", target: boss}]}}
delegation: {children: {clerk: []}}
settings: {language: LANGUAGE}
"""


async def test_no_text_speaks_as_another_through_a_tool_of_an_mcp_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    (tmp_path / "crew.yaml").write_text(ASKING, "utf-8")
    config = tmp_path / "interlock.toml"
    config.write_text(f'[mcp.words]\ncommand = ["{sys.executable}", "{MCP_SERVER}"]\nenv = ["NOTES"]\n', "utf-8")
    model = Puppet()
    calls = [
        ScriptedAnswer(tool_calls=tuple(ToolCall("words_say", {"words": text}) for text in chunk)) for chunk in CHUNKS
    ]
    model.use({"a": [*calls, "done"]})

    async with Interlock(tmp_path / "data", host=config, models=model, durability="normal") as box:
        result = await (await box.start(load_crew(tmp_path / "crew.yaml", host=config), "go")).result()
        assert result.status == "completed", result
    outputs = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert len(outputs) == len(TEXTS) and not any(output.startswith("error:") for output in outputs)
    assert speakers(model.requests) == names("user")


@pytest.mark.parametrize("language", ["en", "vi"])
async def test_no_text_speaks_as_another_through_a_webhook(language: str, tmp_path: Path) -> None:
    model, token = Puppet(), "a plain token of some length"
    model.use({"clerk": ["x [NEXT]"], "boss": ["done"]})

    hooks = incoming_webhooks({"shop": IncomingHook(types=("note:*",), token_env="TOKEN")}, {"TOKEN": token})
    async with open_office(
        tmp_path, incoming=hooks, crews={"crew": OFFICE.replace("LANGUAGE", language)}, model=model
    ) as office:
        await office.box.listen(load_crew(tmp_path / "crew.yaml"))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(office.guard), base_url=ADDRESS) as sender:
            for chunk in CHUNKS:
                said = {"id": chunk[0], "type": "note:x", "data": {"texts": chunk, "keys": dict.fromkeys(chunk, 1)}}
                answer = await sender.post("/v1/webhooks/shop", json=said, headers={TOKEN_HEADER: token})
                assert answer.status_code == 201, answer.text
        assert (await office.finished("go"))["status"] == "completed"
    shown = model.requests[0].messages
    assert sum('kind="broadcast"' in message.text for message in shown) == len(CHUNKS)
    assert speakers(model.requests[:1]) == names("user", "webhook shop")


@pytest.fixture
def note() -> Iterator[None]:
    register("NOTE", {"type": "object"}, from_=(HOST, "clerk"), to="*")
    register("ASK", {"type": "object"}, from_=HOST, to="boss", requires_response=True)
    yield
    unregister("NOTE")
    unregister("ASK")


@pytest.mark.usefixtures("note")
@pytest.mark.parametrize(("language", "host"), [("en", "the program"), ("vi", "chương trình")])
async def test_no_text_speaks_as_another_in_messages_of_the_host(language: str, host: str, tmp_path: Path) -> None:
    (tmp_path / "crew.yaml").write_text(OFFICE.replace("LANGUAGE", language), "utf-8")
    crew, model = load_crew(tmp_path / "crew.yaml"), Puppet()

    async with Interlock(tmp_path / "data", models=model, durability="normal") as box:
        for chunk in CHUNKS:
            body: dict[str, Any] = {"texts": chunk, "keys": dict.fromkeys(chunk, 1)}
            told = call("send_message", type="NOTE", to="boss", body=body)
            answered = call("answer_message", message_id="m2", answer="x")
            model.use({"clerk": ["x [WAIT]", told, "x [NEXT]"], "boss": [answered, "done"]})
            run = await box.start(crew, "go")
            assert (await run.result()).status == "paused"
            for kind in ("NOTE", "ASK"):
                await box.send_message(run.id, kind, "boss", body)
            result = await (await box.resume(run.id, "on")).result()
            assert result.status == "completed", result
            assert speakers(model.requests) == names("user", "clerk", host)
            shown = [message.text for message in model.requests[-1].messages if 'kind="message"' in message.text]
            assert [read_tags(text)[0] for text in shown] == [*names(host)] * 2 + [*names("clerk")]
            assert not any(chunk[0] in text.partition("<said")[0] for text in shown)
