"""Agents that say what a test puts into their mouths, and who can be read to speak in what they were shown."""

from collections.abc import Iterable
from typing import Any

from interlock.adapters.models.scripted_model import ScriptedAnswer, ToolCall
from interlock.engine.state import TurnMessage
from interlock.ports import ModelRequest
from interlock.testing import ScriptedModel
from tests.findings.forged_speech import SPEECH, as_read, read_reversed_tags, read_tags


class Puppet:
    """Agents say what a test puts into their mouths; what they were shown is kept."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def use(self, answers: dict[str, list[Any]]) -> None:
        self.requests, self._script = [], ScriptedModel(answers)

    async def reply(self, request: ModelRequest) -> Any:
        self.requests.append(request)
        async for piece in self._script.reply(request):
            yield piece


def call(name: str, **arguments: Any) -> ScriptedAnswer:
    return ScriptedAnswer(tool_calls=(ToolCall(name, arguments),))


def speakers(requests: Iterable[ModelRequest]) -> set[str]:
    """Who speaks in any frame, once it is sure that every frame is whole, and that all of the text is in one."""
    found: set[str] = set()
    for request in requests:
        for message in request.messages:
            if message.role != "assistant":
                assert read_reversed_tags(message.text) == [], message.text
                found |= speakers_in(message)
    return found


def speakers_in(message: TurnMessage) -> set[str]:
    tags = read_tags(message.text)
    if message.role == "tool":  # a role of its own, which no text can leave
        assert tags == [], message.text
        return set()
    assert len(tags) % 2 == 0 and tags[1::2] == ["/"] * (len(tags) // 2), message.text
    outside = [message.text.partition("<said")[0], message.text.rpartition("</said>")[2]]
    outside += [piece.partition("<said")[0] for piece in message.text.split("</said>")[1:]]
    assert not any(SPEECH in each for each in outside), message.text
    return set(tags[::2])


def names(*said: str) -> set[str]:
    return set(map(as_read, said))
