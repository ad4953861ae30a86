"""A process that appends to a run and acknowledges each record on its output, until a crash point ends it."""

import asyncio
import os
import sys

from interlock.adapters.postgres.store import PostgresStore
from interlock.engine.events import ModelReplied, RunStarted
from interlock.ports import Record, RunRow

ROW = RunRow(run="r1", crew="quiz", crew_sha="0" * 64, status="running")


async def main(url: str) -> None:
    store = PostgresStore(url)
    await store.create(ROW, Record(seq=1, at=1, events=(RunStarted(crew="quiz", input="Begin", rules=1),)))
    os.write(1, b"1\n")
    for seq in range(2, 5):
        await store.append(ROW, Record(seq=seq, at=seq, events=(ModelReplied(call="c", agent="a", text="b"),)))
        os.write(1, b"%d\n" % seq)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
