"""The beginning of a prompt stays as it was in the call before, so that a provider reads it from its cache.

Measured for successive calls of one agent: on the request of the port, and on the bytes of an OpenAI chat completion.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from interlock import Interlock, load_crew
from interlock.adapters.models.openai.chat_request import chat_body
from interlock.adapters.models.openai.endpoint import Endpoint, Server
from interlock.engine.events import ToolRequest
from interlock.ports import ModelReply, ModelRequest
from tests.nested_crews import nested_crew

CALLS = 30
ENDPOINT = Endpoint(server=Server("m", ""), url="http://127.0.0.1:9/v1", provider="openai")
Answer = Callable[[ModelRequest, int], str | ModelReply]

LOOP = """\
version: "2.0"
name: loop
entry_point: a
agents: [{id: a, system_prompt: "Look around.", tools: [look]}]
settings: {max_rounds: 60, SETTINGS}
routing: {signals: {a: [{signal: "[END]"}]}}
"""
PAIR = """\
version: "2.0"
name: pair
entry_point: a
agents: [{id: a, name: Ann, system_prompt: "Ask.", tools: [look]}, {id: b, name: Bob, system_prompt: "Answer."}]
settings: {max_handoffs: 200, loop_window: 0, SETTINGS}
routing:
  signals:
    a: [{signal: "[OVER]", type: route, target: b}, {signal: "[END]"}]
    b: [{signal: "[BACK]", type: route, target: a}]
"""
TEAM = """\
version: "2.0"
name: team
entry_point: boss
agents: [{id: boss, name: Boss}, {id: ann, name: Ann, tools: [look]}, {id: bob, name: Bob}]
settings: {max_handoffs: 200, loop_window: 0}
routing:
  signals: {boss: [{signal: "[ASK]", type: parallel, target: team}, {signal: "[END]"}]}
  parallel_groups: {team: {agents: [ann, bob], next_agent: boss}}
"""


async def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: nothing but grass. " * 20


def calls_look(n: int, count: int = 1, text: str = "") -> ModelReply:
    asked = (ToolRequest(id=f"{n}.{i}", name="look", arguments=f'{{"place":"field {n}.{i}"}}') for i in range(count))
    return ModelReply(text=text, tool_calls=tuple(asked))


def looks(calls: int, most: int = 3) -> Answer:
    """Looks at one to `most` places with each call but the last."""

    def answer(_request: ModelRequest, n: int) -> str | ModelReply:
        return calls_look(n, 1 + n % most) if n < calls else "Done.\n[END]"

    return answer


async def requests_of(crew: Path, answer: Answer) -> dict[str, list[ModelRequest]]:
    """All requests of a run, by agent."""
    asked: dict[str, list[ModelRequest]] = {}

    def model(request: ModelRequest) -> str | ModelReply:
        own = asked.setdefault("/".join((*request.path, request.agent)), [])
        # The messages of a request are a view of a growing list; a client has made its body by now.
        own.append(msgspec.structs.replace(request, messages=tuple(request.messages)))
        return answer(request, len(own))

    async with Interlock(crew.parent / "data", models=model) as box:
        result = await (await box.start(load_crew(crew, tools=[look]), "Find the well. " * 20)).result()
    assert result.status == "completed", result.detail or result.reason
    return asked


def crew_file(folder: Path, text: str, settings: str = "") -> Path:
    (folder / "crew.yaml").write_text(text.replace("SETTINGS", settings), "utf-8")
    return folder / "crew.yaml"


def kept_messages(before: ModelRequest, after: ModelRequest) -> float:
    """The share of the earlier messages with which the later ones begin; 0 if instructions or tools changed."""
    if (before.system, before.tools) != (after.system, after.tools):
        return 0
    same = 0
    for one, other in zip(before.messages, after.messages, strict=False):
        if one != other:
            break
        same += 1
    return same / len(before.messages)


def kept_bytes(before: ModelRequest, after: ModelRequest) -> float:
    """The share of the earlier body, up to the end of its messages, with which the later one begins."""
    old, new = (chat_body(ENDPOINT, "m", request) for request in (before, after))
    same = next((n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    return min(1.0, same / old.rindex(b'],"stream":'))


def shares(asked: Sequence[ModelRequest], measure: Callable[[ModelRequest, ModelRequest], float]) -> list[float]:
    return [measure(before, after) for before, after in pairwise(asked)]


def is_whole(asked: Sequence[ModelRequest]) -> bool:
    return set(shares(asked, kept_messages)) == set(shares(asked, kept_bytes)) == {1.0}


async def test_in_a_tool_loop_every_prompt_begins_with_the_one_before(tmp_path: Path) -> None:
    asked = await requests_of(crew_file(tmp_path, LOOP), looks(CALLS))
    assert len(asked["a"]) == CALLS and is_whole(asked["a"])


async def test_a_nudge_is_added_at_the_end(tmp_path: Path) -> None:
    answers: list[str | ModelReply] = [calls_look(1), "Well.", calls_look(3), "Still nothing.", "Done.\n[END]"]
    asked = await requests_of(crew_file(tmp_path, LOOP), lambda _, n: answers[n - 1])
    assert len(asked["a"]) == 5 and is_whole(asked["a"])


async def test_agents_that_hand_over_to_each_other_see_their_old_prompt_and_what_is_new(tmp_path: Path) -> None:
    def answer(request: ModelRequest, n: int) -> str:
        return f"Word {n}.\n[BACK]" if request.agent == "b" else f"Word {n}.\n[{'OVER' if n < CALLS else 'END'}]"

    asked = await requests_of(crew_file(tmp_path, PAIR), answer)
    assert [len(own) for own in asked.values()] == [CALLS, CALLS - 1]
    assert is_whole(asked["a"]) and is_whole(asked["b"])


async def test_after_a_turn_with_tools_the_prompt_begins_with_all_that_was_said_before_it(tmp_path: Path) -> None:
    """What an agent did in its turn is not part of the talk; all before it stays."""

    def answer(request: ModelRequest, n: int) -> str | ModelReply:
        if request.agent == "b":
            return f"Word {n}.\n[BACK]"
        if n % 3:
            return calls_look(n)
        return f"Word {n}.\n[{'OVER' if n < CALLS else 'END'}]"

    own = (await requests_of(crew_file(tmp_path, PAIR), answer))["a"]
    turns = [own[n : n + 3] for n in range(0, CALLS, 3)]
    assert all(is_whole(turn) for turn in turns)
    assert is_whole([turn[0] for turn in turns])


async def test_members_of_a_group_see_their_old_prompt_and_what_is_new(tmp_path: Path) -> None:
    def answer(request: ModelRequest, n: int) -> str | ModelReply:
        if request.agent == "boss":
            return f"Word {n}.\n[{'ASK' if n < 10 else 'END'}]"
        return calls_look(n) if request.agent == "ann" and n % 2 else f"Word {n}."

    asked = await requests_of(crew_file(tmp_path, TEAM), answer)
    assert is_whole(asked["boss"]) and is_whole(asked["bob"])
    assert is_whole(asked["ann"][::2]) and all(is_whole(asked["ann"][n : n + 2]) for n in range(0, 18, 2))


async def test_agents_of_a_sub_crew_have_the_same_beginning_in_each_run(tmp_path: Path) -> None:
    def answer(request: ModelRequest, n: int) -> str:
        if request.agent == "a":
            return f"Word {n}.\n[{'WRITE' if n < 10 else 'END'}]"
        return f"Word {n}.\n[END]"

    asked = await requests_of(nested_crew(tmp_path) / "crew.yaml", answer)
    assert is_whole(asked["a"])
    written = asked["beta/z"]
    assert len(written) == 9
    assert len({(request.system, msgspec.json.encode(request.tools)) for request in written}) == 1


async def test_a_tool_loop_longer_than_the_window_is_cut_in_steps(tmp_path: Path) -> None:
    settings = "max_context_window: 4000, context_trim_percent: 40"
    asked = await requests_of(crew_file(tmp_path, LOOP, settings), looks(CALLS * 2, most=1))
    own, steps = asked["a"], [share for share in shares(asked["a"], kept_messages) if share < 1]
    assert own[0].messages[0] == own[-1].messages[0]
    assert 4 <= len(steps) <= CALLS * 2 / 6
    assert all(any(message.role == "tool" for message in request.messages[-1:]) for request in own[1:])


async def test_a_talk_longer_than_the_window_is_cut_in_steps(tmp_path: Path) -> None:
    def answer(request: ModelRequest, n: int) -> str:
        mark = "BACK" if request.agent == "b" else "OVER" if n < CALLS * 2 else "END"
        return f"Word {n}. {'And so on. ' * 15}\n[{mark}]"

    asked = await requests_of(crew_file(tmp_path, PAIR, "max_context_window: 3000, context_trim_percent: 40"), answer)
    steps = [share for share in shares(asked["a"], kept_messages) if share < 1]
    assert 4 <= len(steps) <= CALLS * 2 / 5
