"""Secrets are removed from texts, and quoted words stay in their frames."""

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.engine.events import Entry, RunStarted
from interlock.engine.prompt.phrases import merge_replies
from interlock.runtime.redaction import redact_event

SECRET = "sk-123456789-abcdefghijkl"


def redacted(entry: Entry, secret: str = SECRET) -> Entry:
    event = redact_event(RunStarted(crew="c", input="x", rules=3, history=(entry,)), KnownSecrets([secret]))
    assert isinstance(event, RunStarted)
    return event.history[0]


def test_frames_stay_where_the_words_are() -> None:
    said = merge_replies(
        "member", [("Ann", f"{SECRET} and {SECRET} {SECRET}"), ("Bob", f"me too: {SECRET}."), ("Cy", "no")]
    )
    entry = redacted(Entry(role="user", author="system", text=said.text, turn=1, frames=said.frames))
    assert isinstance(entry.frames, tuple) and SECRET not in entry.text
    ann, bob, cy = (entry.text[frame.start : frame.end] for frame in entry.frames)
    assert ann.count(" and ") == 1 and bob.startswith("me too: ") and bob.endswith(".") and cy == "no"
    assert entry.text == f"[Ann] {ann}\n[Bob] {bob}\n[Cy] no"


def test_a_secret_over_the_words_of_two_leaves_no_frames_that_are_wrong() -> None:
    said = merge_replies("member", [("Ann", "token"), ("Bob", "12345678")])
    entry = redacted(
        Entry(role="user", author="system", text=said.text, turn=1, frames=said.frames), "token\n[Bob] 12345678"
    )
    assert "12345678" not in entry.text and entry.frames is msgspec.UNSET
