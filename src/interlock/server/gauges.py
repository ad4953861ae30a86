"""Gauges of `/metrics`: the current state of the server and of its data folder."""

import asyncio
from collections.abc import Iterator

from interlock import __version__
from interlock.compose.interlock import Interlock
from interlock.errors import StoreFailed
from interlock.ports import FolderCounts
from interlock.server.metrics import Sample

# How often the lag of the loop is measured.
LAG_STEP_S = 0.5


class LoopLag:
    """The lag of the event loop: a synchronous tool or a slow disk blocks all runs and requests."""

    def __init__(self) -> None:
        self.newest_s = self._worst_s = 0.0

    async def run(self) -> None:
        """Measures until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_STEP_S
            await asyncio.sleep(LAG_STEP_S)
            self.newest_s = max(0.0, loop.time() - due)
            self._worst_s = max(self._worst_s, self.newest_s)

    def take_worst(self) -> float:
        """The largest lag since the last call."""
        worst, self._worst_s = self._worst_s, self.newest_s
        return worst


async def folder_gauges(box: Interlock) -> list[Sample]:
    """Gauges of the store; only `store_up` while it is unavailable."""
    try:
        counts = await box.store.folder_counts()
        await box.runner.set_asides.refresh()
    except StoreFailed:
        return [Sample("store_up", "Whether the data folder can be read.", 0)]
    size = box.home.size_bytes()
    return [
        Sample("store_up", "Whether the data folder can be read.", 1),
        *_count_samples(counts, box.clock.now_ms()),
        Sample("runs_set_aside", "Runs that a process could not drive, of all processes.", len(box.set_aside)),
        *([] if size is None else [Sample("database_bytes", "Size of the database with its log.", size)]),
    ]


def _count_samples(counts: FolderCounts, now_ms: int) -> Iterator[Sample]:
    for crew, status, count in counts.runs:
        labels = (("crew", crew), ("status", status))
        yield Sample("runs_in_store", "Runs in the data folder that are not over.", count, labels)
    oldest_s = (now_ms - counts.oldest_question_at) / 1000 if counts.questions else 0
    yield Sample("questions_open", "Questions that wait for a person.", counts.questions)
    yield Sample("question_oldest_seconds", "Age of the oldest open question.", max(0.0, oldest_s))
    yield Sample("schedules", "Schedules of runs.", counts.schedules)
    yield Sample("schedules_failed", "Schedules whose last occurrence did not start.", counts.schedules_failed)
    next_s = counts.next_schedule_at / 1000
    yield Sample("schedule_next_timestamp_seconds", "When the next run is due; 0 if none is.", next_s)
    yield Sample("webhook_letters_waiting", "Webhook deliveries that are pending.", counts.letters_waiting)
    yield Sample("webhook_letters_dead", "Webhook deliveries that failed for good.", counts.letters_dead)
    yield Sample("broadcasts_dead", "Broadcasts that could not be delivered.", counts.broadcasts_dead)


def process_gauges(box: Interlock, streams: int, lag: LoopLag) -> list[Sample]:
    """Gauges of this process."""
    return [
        Sample("build_info", "The version that serves; always 1.", 1, (("version", __version__),)),
        Sample("runs_under_way", "Runs that this process drives.", len(box.runner.live)),
        Sample("streams_open", "Event streams that are open.", streams),
        Sample("event_loop_lag_seconds", "Largest lag of the event loop since the last scrape.", lag.take_worst()),
    ]
