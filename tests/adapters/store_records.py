"""A small run, as stores are given it."""

import msgspec

from interlock.engine.events import ModelReplied, RunStarted, Usage
from interlock.ports import Record, RunRow


def a_row(run: str = "r1", **fields: object) -> RunRow:
    return msgspec.structs.replace(RunRow(run=run, crew="quiz", crew_sha="0", status="running"), **fields)


def started(text: str = "go") -> Record:
    return Record(seq=1, at=1, events=(RunStarted(crew="quiz", input=text, rules=1),))


def replied(seq: int, text: str = "") -> Record:
    reply = ModelReplied(call="c", agent="a", text=text or f"reply {seq}", usage=Usage())
    return Record(seq=seq, at=seq, events=(reply,))
