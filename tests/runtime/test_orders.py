"""Orders for runs that rest: a worker takes those that it may claim, and no others."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock import Interlock, load_crew
from interlock.errors import HostLacks
from interlock.ports import RunOrder, RunRow
from interlock.runtime.claiming.work import WorkSettings
from interlock.runtime.orders import CANCEL, MESSAGE, RESUME, resume_body
from interlock.testing import ScriptedModel

CREW = """\
version: "2.0"
name: desk
settings: {organization: us}
entry_point: a
agents: [{id: a}]
routing: {signals: {a: [{signal: "[WAIT]"}, {signal: "[END]"}]}}
"""


async def paused_run(folder: Path, **work: Any) -> None:
    (folder / "crew.yaml").write_text(CREW, "utf-8")
    model = ScriptedModel({"a": ["which? [WAIT]"]})
    async with Interlock(folder / "data", models=model, work=WorkSettings(**work)) as box:
        assert (await (await box.start(load_crew(folder), "go", run_id="r")).result()).status == "paused"


def resume_order() -> RunOrder:
    return RunOrder(key="k", run="r", kind=RESUME, body=resume_body(None, "this", continues_parked=True), by="me", at=1)


@pytest.mark.parametrize(
    ("begun", "worker", "takes"),
    [
        ({}, {}, True),
        ({}, {"crews": ("desk",), "organizations": ("us",)}, True),
        ({}, {"crews": ("other",)}, False),
        ({}, {"organizations": ("them",)}, False),
        ({"private": True}, {"takes_private": False}, False),
        ({"private": True}, {}, True),
    ],
)
async def test_a_worker_takes_orders_for_resting_runs_that_it_may_claim(
    tmp_path: Path, begun: dict[str, Any], worker: dict[str, Any], takes: bool
) -> None:
    await paused_run(tmp_path, **begun)
    async with Interlock(
        tmp_path / "data", models=lambda _: "done [END]", recover=True, work=WorkSettings(**worker)
    ) as box:
        await box.runner.orders.post(resume_order())
        found = await box.runner.order_taker._open_orders()
        assert [order.key for order in found] == (["k"] if takes else [])
        box.runner.order_taker.wake()
        while takes and (await box.journal.row("r")).status != "completed":
            await asyncio.sleep(0)
        assert (await box.journal.row("r")).status == ("completed" if takes else "paused")


async def test_any_worker_may_cancel_a_private_run(tmp_path: Path) -> None:
    await paused_run(tmp_path, private=True)
    work = WorkSettings(takes_private=False)
    async with Interlock(tmp_path / "data", models=lambda _: "done [END]", recover=True, work=work) as box:
        await box.runner.orders.post(RunOrder(key="k", run="r", kind=CANCEL, by="me", at=1))
        box.runner.order_taker.wake()
        while (await box.journal.row("r")).status != "cancelled":
            await asyncio.sleep(0)


async def test_an_order_for_a_run_that_was_deleted_keeps_no_other_waiting(tmp_path: Path) -> None:
    await paused_run(tmp_path)
    async with Interlock(tmp_path / "data", models=lambda _: "done [END]", recover=True) as box:
        gone = RunOrder(key="gone", run="none", kind=MESSAGE, at=1)

        async def both(owner: str) -> Sequence[RunOrder]:
            return [] if owner else [gone, resume_order()]

        box.runner.orders.orders_for = both  # type: ignore[method-assign]
        assert [order.key for order in await box.runner.order_taker._open_orders()] == ["k"]


async def test_a_run_of_a_newer_version_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a command names it: its journal would be misread, or taken for damaged."""
    await paused_run(tmp_path)
    async with Interlock(tmp_path / "data", models=lambda _: "done [END]") as box:
        row_of = box.journal.row

        async def newer(run: str) -> RunRow:
            return msgspec.structs.replace(await row_of(run), rules=1_000)

        monkeypatch.setattr(box.journal, "row", newer)
        with pytest.raises(HostLacks, match=r"newer version of Interlock: rules 1000.*upgrade Interlock here"):
            await box.resume("r", "this")
        assert not await box.owners.is_owned("r")
        assert (await row_of("r")).status == "paused"
