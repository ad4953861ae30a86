"""A process that owns a run until it is ended: it says when it has it, and when it has lost it."""

import asyncio
import os
import sys

from interlock.adapters.postgres.store import PostgresStore
from interlock.engine.events import RunStarted
from interlock.errors import NotOwner
from interlock.ports import Record, RunRow

ROW = RunRow(run="r1", crew="quiz", crew_sha="0" * 64, status="running")


def record(seq: int) -> Record:
    return Record(seq=seq, at=seq, events=(RunStarted(crew="quiz", input="Begin", rules=1),))


async def main(url: str) -> None:
    store = PostgresStore(url)
    lost = asyncio.Event()
    store.on_lost(lost.set)
    await store.create(ROW, record(1))
    os.write(1, b"owned\n")
    await lost.wait()
    try:
        await store.append(ROW, record(2))
    except NotOwner:
        os.write(1, b"lease lost\n" if not store.has_lease() else b"lease held\n")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
