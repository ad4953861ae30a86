"""What an agent is shown: the same whether its view was built on turn by turn, or made anew."""

from pathlib import Path

import pytest

from interlock import load_crew
from interlock.engine.conversation import Conversation
from interlock.engine.events import Entry
from interlock.engine.routing import RoutingTable
from interlock.engine.state import Message, Turn

CREW = """\
version: "2.0"
name: story
entry_point: a
agents: [{id: a, name: Ann}, {id: b, name: Bob}]
settings: {max_context_window: 1000}
routing:
  signals:
    a: [{signal: "[NEXT]", target: b}, {signal: "[END]"}]
    b: [{signal: "[NEXT]", target: a}]
"""


def conversation(folder: Path) -> Conversation:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    crew = load_crew(folder)
    return Conversation(crew, RoutingTable(crew))


def entries(count: int) -> list[Entry]:
    return [
        Entry(role="assistant", author="ab"[n % 2], text=f"{n} " + "word " * (n % 40) + "[NEXT]", turn=n)
        for n in range(count)
    ]


@pytest.mark.parametrize("said", [(), ("assistant", "tool", "tool")], ids=["at once", "after tools"])
def test_a_view_built_turn_by_turn_is_the_one_made_anew(tmp_path: Path, said: tuple[str, ...]) -> None:
    history, growing = entries(120), conversation(tmp_path)
    for length in range(1, len(history) + 1):
        turn = Turn(number=1, agent="a", history=length, said=[Message(role=role, text="x" * 90) for role in said])
        assert growing.messages(history[:length], turn) == conversation(tmp_path).messages(history, turn)


def test_a_long_history_keeps_its_first_entry_and_as_many_of_the_newest_as_fit(tmp_path: Path) -> None:
    history = [Entry(role="user", author="user", text="x" * 300, turn=0) for _ in range(20)]
    shown = conversation(tmp_path).messages(history, Turn(number=1, agent="a", history=20))
    left_out = 20 - (len(shown) - 1)
    assert shown[1].text == f"[{left_out} earlier entries are left out here]"
    assert 0 < left_out < 19
