"""Finding 2.1: memory of a server does not grow with finished runs; `python -m campaign.memory` shows it at length."""

import asyncio
import gc
from pathlib import Path

from interlock.adapters.server_settings import ServerSettings
from interlock.adapters.store_sqlite import CACHE_KB
from tests.server.office import Office, played

RUNS = 200


async def finish(office: Office, count: int) -> int:
    """So many runs; gives how many objects there are afterwards."""
    for _ in range(count // 20):
        await asyncio.gather(*(office.finished() for _ in range(20)))
    gc.collect()
    return len(gc.get_objects())


def test_a_finished_run_leaves_no_object_behind(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        await finish(office, RUNS)  # caches fill
        before = await finish(office, RUNS)
        after = await finish(office, RUNS)
        assert after - before < RUNS, "less than one object a run"
        assert office.box.runner.live == {}

    played(tmp_path, story, settings=ServerSettings(requests_per_second=1_000_000))


def test_the_cache_of_the_database_is_small_beside_the_process(tmp_path: Path) -> None:
    async def story(office: Office) -> None:
        def cache_kb(connection: object, _: object) -> int:
            return -int(connection.execute("pragma cache_size").fetchone()[0])  # type: ignore[attr-defined]

        assert await office.box.store._write("ask", cache_kb) == CACHE_KB
        assert CACHE_KB <= 4 * 1024

    played(tmp_path, story)
