"""Finding 2.1: memory of a server does not grow with finished runs; `python -m campaign.memory` shows it at length."""

import asyncio
import gc
import sys
from pathlib import Path
from weakref import ReferenceType

from interlock import Interlock, load_crew
from interlock.adapters.config.server_settings import ServerSettings
from interlock.adapters.models.scripted_model import ScriptedModel
from interlock.adapters.sqlite.store import CACHE_KB
from tests.boxes import sqlite_of
from tests.server.office import Office, open_office

RUNS = 300


async def finish(office: Office, count: int) -> int:
    """So many runs; gives the fewest objects that there were after a batch: the last one may still be in hand."""
    fewest = sys.maxsize
    for batch in range(count // 20):
        await asyncio.gather(*(office.finished() for _ in range(20)))
        if batch >= count // 20 - 5:
            gc.collect()
            fewest = min(fewest, sum(not isinstance(each, ReferenceType) for each in gc.get_objects()))
    return fewest


async def test_a_finished_run_leaves_no_object_behind(tmp_path: Path) -> None:
    async with open_office(tmp_path, settings=ServerSettings(requests_per_second=1_000_000)) as office:
        await finish(office, RUNS)  # caches fill
        before = await finish(office, RUNS)
        after = await finish(office, RUNS)
        assert after - before < RUNS, "less than one object a run"
        assert office.box.runner.live == {}


async def test_the_cache_of_the_database_is_small_beside_the_process(tmp_path: Path) -> None:
    async with open_office(tmp_path) as office:

        def cache_kb(connection: object, _: object) -> int:
            return -int(connection.execute("pragma cache_size").fetchone()[0])  # type: ignore[attr-defined]

        assert await sqlite_of(office.box).write("ask", cache_kb) == CACHE_KB
        assert CACHE_KB <= 4 * 1024


async def test_a_script_that_answers_for_a_server_keeps_no_request(tmp_path: Path) -> None:
    """A scripted model of a test keeps what it was asked; one that lives as long as a server must not."""
    (tmp_path / "crew.yaml").write_text(
        'version: "2.0"\nname: c\nentry_point: a\nagents: [{id: a, is_terminal: true}]\n', "utf-8"
    )
    (tmp_path / "script.yaml").write_text("replies: {a: ['Fine.']}", "utf-8")

    others = {id(each) for each in gc.get_objects() if isinstance(each, ScriptedModel)}

    async with Interlock(tmp_path / "data", script=tmp_path / "script.yaml") as box:
        run = await box.start(load_crew(tmp_path), "hello")
        assert (await run.result()).output == "Fine."
        models = {id(each): each for each in gc.get_objects() if isinstance(each, ScriptedModel)}
        assert [each.asked for key, each in models.items() if key not in others] == [[]]
