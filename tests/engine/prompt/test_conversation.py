"""What an agent is shown: the same whether its view was built on turn by turn, or made anew."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.compose.crews import load_definition
from interlock.engine.events import Entry, ModelReplied, RunStarted, Usage
from interlock.engine.prompt.conversation import Conversation, tokens_of
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.run import RULES, Run
from interlock.engine.state import Turn, TurnMessage
from interlock.messages.frames import Show, in_frame

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


def conversation(folder: Path, window: int = 1000) -> Conversation:
    (folder / "crew.yaml").write_text(CREW.replace("1000", str(window)), "utf-8")
    crew = load_definition(folder)
    return Conversation(crew, RoutingTable(crew))


def entries(count: int) -> list[Entry]:
    return [
        Entry(role="assistant", author="ab"[n % 2], text=f"{n} " + "word " * (n % 40) + "[NEXT]", turn=n)
        for n in range(count)
    ]


def within(message: TurnMessage) -> str:
    """The words inside a frame that is whole."""
    opening, _, rest = message.text.partition("\n")
    words, _, closing = rest.rpartition("\n")
    assert (opening, closing) == ('<said by="user" kind="input">', "</said>")
    return words


@pytest.mark.parametrize("said", [(), ("assistant", "tool", "tool")], ids=["at once", "after tools"])
def test_a_view_built_turn_by_turn_is_the_one_made_anew(tmp_path: Path, said: tuple[str, ...]) -> None:
    history, growing = entries(120), conversation(tmp_path)
    for length in range(1, len(history) + 1):
        turn = Turn(number=1, agent="a", history=length, said=[TurnMessage(role=role, text="x" * 90) for role in said])
        assert growing.messages(history[:length], turn) == conversation(tmp_path).messages(history, turn)


def rounds_of(count: int, chars: int = 300) -> list[TurnMessage]:
    return [
        TurnMessage(role=role, text=f"{n} {'x' * chars}")
        for n in range(count)
        for role in ("assistant", "tool", "tool")
    ]


@pytest.mark.parametrize("trimmed", [False, True], ids=["", "refused before"])
def test_a_turn_cut_round_by_round_is_the_one_made_anew(tmp_path: Path, trimmed: bool) -> None:
    history, growing, said = entries(8), conversation(tmp_path, 3_000), rounds_of(40)
    for length in range(0, len(said) + 1, 3):
        turn = Turn(number=1, agent="a", history=8, said=said[:length], trimmed=trimmed)
        shown = growing.messages(history, turn)
        assert shown == conversation(tmp_path, 3_000).messages(history, turn)
        newest = shown[-1].text
        assert not length or newest[:8] == said[length - 1].text[:8], "the newest round is always there"


def test_a_step_never_takes_all_of_a_turn(tmp_path: Path) -> None:
    """A round that has no room in the share that a step leaves has room in the window."""
    (tmp_path / "crew.yaml").write_text(CREW.replace("1000", "2000, context_trim_percent: 90"), "utf-8")
    crew = load_definition(tmp_path)
    turn = Turn(number=1, agent="a", history=1, said=rounds_of(6, chars=900))
    shown = Conversation(crew, RoutingTable(crew)).messages(entries(1), turn)
    assert [message.role for message in shown[-3:]] == ["assistant", "tool", "tool"]


def test_a_long_history_keeps_its_first_entry_and_as_many_of_the_newest_as_fit(tmp_path: Path) -> None:
    history = [Entry(role="user", author="user", text="x" * 300, turn=0) for _ in range(20)]
    shown = conversation(tmp_path).messages(history, Turn(number=1, agent="a", history=20))
    left_out = 20 - (len(shown) - 1)
    assert shown[1].text == f"[{left_out} earlier entries are left out here]"
    assert 0 < left_out < 19


def test_once_something_is_left_out_a_view_grows_again_before_more_goes(tmp_path: Path) -> None:
    """So that what a provider remembers of the last prompt is still its beginning."""
    talk, history = conversation(tmp_path, 1_500), entries(300)
    markers = [talk.messages(history, Turn(number=1, agent="a", history=n))[1].text for n in range(60, 300)]
    changes = sum(before != after for before, after in pairwise(markers))
    assert 3 <= changes <= len(markers) / 5


@settings(max_examples=200, deadline=None)
@given(
    window=st.integers(700, 3_000),
    lengths=st.lists(st.integers(0, 4_000), min_size=1, max_size=30),
    rounds=st.lists(st.sampled_from([["user"], ["tool"], ["tool", "tool"]]), max_size=4),
    scale=st.sampled_from([1_000, 1_700]),
    trimmed=st.booleans(),
)
def test_what_is_shown_fits_the_window_whatever_was_said(
    tmp_path_factory: pytest.TempPathFactory,
    window: int,
    lengths: list[int],
    rounds: list[list[str]],
    scale: int,
    trimmed: bool,
) -> None:
    talk = conversation(tmp_path_factory.getbasetemp(), window)
    history = [Entry(role="user", author="user", text="ab é"[: 1 + n % 4] * (n // 2), turn=0) for n in lengths]
    said = [TurnMessage(role=role, text="x" * 2_000) for answers in rounds for role in ("assistant", *answers)]
    turn = Turn(number=1, agent="a", history=len(history), said=said, trimmed=trimmed)
    shown = talk.messages(history, turn, scale)
    assert sum(map(tokens_of, shown)) * scale // 1_000 <= window * (3 if trimmed else 4) // 4
    assert trimmed or within(shown[0])[:8] == history[0].text[:8]
    followed = [one.role for one, two in pairwise(shown) if two.role == "tool"]
    assert set(followed) <= {"assistant", "tool"}, "an output never stands without its call"


def test_an_entry_too_long_by_itself_loses_its_middle(tmp_path: Path) -> None:
    history = [Entry(role="user", author="user", text=f"begin {'x' * 9_000} end", turn=0)]
    (shown,) = conversation(tmp_path).messages(history, Turn(number=1, agent="a", history=1))
    assert within(shown).startswith("begin x") and within(shown).endswith("x end")
    assert "characters are left out here]" in shown.text


def test_what_is_handed_to_a_model_stays_as_it_was_while_history_grows(tmp_path: Path) -> None:
    talk, history = conversation(tmp_path, 100_000), entries(50)
    early = talk.messages(history, Turn(number=1, agent="a", history=20))
    before = list(early)
    talk.messages(history, Turn(number=2, agent="a", history=50))
    assert list(early) == before and len(early) == 20


def test_an_entry_is_framed_once_and_the_beginning_of_a_prompt_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def counted(author: str, kind: str, text: str, show: Show) -> str:
        drawn.append(text)
        return in_frame(author, kind, text, show)

    monkeypatch.setattr("interlock.engine.prompt.conversation.in_frame", counted)
    talk, history, before = conversation(tmp_path, window=100_000), entries(200), ""
    for length in range(1, 201):
        for _ in range(3):
            shown = "\n".join(
                each.text for each in talk.messages(history, Turn(number=length, agent="a", history=length))
            )
        assert shown.startswith(before)
        before = shown
    assert len(drawn) == sum(entry.author != "a" for entry in history)


def test_what_a_provider_counts_beyond_the_estimate_makes_the_next_estimates_larger(tmp_path: Path) -> None:
    talk = conversation(tmp_path)
    run = Run(talk.crew, "r")
    run.apply(RunStarted(crew="story", input="hello " * 50, rules=RULES))
    turn = run.state.turn
    assert turn is not None
    estimate = talk.estimate(run.state.history, turn)
    usage = Usage(input_tokens=estimate * 3, output_tokens=1)
    run.apply(ModelReplied(call=turn.call, agent="a", text="over [NEXT]", usage=usage, estimate=estimate))
    assert run.state.scales == {"a": 3_000}, "each agent has its own model, and its own scale"
    history = entries(60)
    plain, scaled = (talk.messages(history, Turn(number=9, agent="a", history=60), scale) for scale in (1_000, 3_000))
    assert sum(map(tokens_of, scaled)) * 3 <= 1_000 < sum(map(tokens_of, plain)) * 3


def test_history_keeps_the_run_that_something_was_said_in(tmp_path: Path) -> None:
    crew = conversation(tmp_path).crew
    before = Entry(role="user", author="user", text="earlier", run="first", turn=0)
    run = Run(crew, "second")
    run.apply(RunStarted(crew="story", input="go", rules=RULES, continues="first", history=(before,)))
    assert [(entry.run, entry.text) for entry in run.state.history] == [("first", "earlier"), ("second", "go")]
