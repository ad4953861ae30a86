"""A box that cannot be opened leaves nothing open."""

import threading
from pathlib import Path

import pytest

from interlock import Interlock


async def test_what_was_opened_is_closed_when_opening_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Interlock) -> None:
        raise RuntimeError("no questions today")

    monkeypatch.setattr(Interlock, "list_missing_questions", fail)
    before = set(threading.enumerate())
    with pytest.raises(RuntimeError, match="no questions today"):
        async with Interlock(tmp_path / "data"):
            pass
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not left & {"interlock-writer", "interlock-views"}
    monkeypatch.undo()
    async with Interlock(tmp_path / "data") as box:
        assert await box.journal.rows() == []
