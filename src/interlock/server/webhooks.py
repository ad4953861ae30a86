"""Outgoing webhooks: run endings, questions and external signals, sent to the receivers in interlock.toml.

Rule 1: deliveries come from the journal. Each webhook has a position in it. Deliveries and the new position are stored
in one transaction, so that no record is missed, whichever process stored it and however this process ends.
Rule 2: delivery is at least once, with the same id on every try. After the last try it becomes a dead letter.
Rule 3: a new webhook starts with new records: the past is not sent.
Rule 4: one server at a time writes and sends, the leader. What a former leader still writes is refused.
Rule 5: each webhook with pending deliveries has its own task, so that a slow receiver delays no other.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import quote

import msgspec

from interlock.adapters.config.webhook_settings import BROADCAST, OUTGOING_EVENTS, OutgoingHook
from interlock.adapters.webhooks.sender import WebhookNotSent, WebhookSender
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import Broadcast
from interlock.engine.events import ExternalSent, InputRequested, RunFinished
from interlock.errors import StoreFailed
from interlock.ports import Bus, Clock, Leadership, RecordFeed, StoredRecord, WebhookDelivery, WebhookOutbox
from interlock.ports.server import BROADCAST_POSITION
from interlock.runtime.following import PublicEvent, public_events

_log = logging.getLogger("interlock.server")

# Pauses between tries; after the last one the delivery is a dead letter.
RETRY_DELAYS_MS = (5_000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000)

# Parallel deliveries to one receiver.
CONCURRENT_SENDS_MAX = 16
PAGE = 200

# The name under which one server leads.
WEBHOOKS = "webhooks"
POLL_S = 1.0


class WebhookStore(RecordFeed, WebhookOutbox, Protocol):
    """A journal, and an outbox of deliveries."""


class WebhookPublisher:
    """Sends webhooks: one task that stores deliveries, and one for each webhook with pending ones."""

    def __init__(
        self,
        store: WebhookStore,
        bus: Bus,
        clock: Clock,
        hooks: Mapping[str, OutgoingHook],
        senders: Mapping[str, WebhookSender],
        *,
        redact: Callable[[bytes], bytes] = bytes,
        public_url: str = "",
    ) -> None:
        self._public_url = public_url.rstrip("/")
        self._redact = redact
        self._store, self._bus, self._clock, self._hooks, self._senders = store, bus, clock, hooks, senders
        self._woken = asyncio.Event()
        self._sending: set[str] = set()

    def on_record_stored(self, stored: StoredRecord) -> None:
        """Called by the runner when a record was stored."""
        if any(isinstance(event, RunFinished | InputRequested | ExternalSent) for event in stored.record.events):
            self._woken.set()

    async def initialize_positions(self) -> None:
        """Starts a new webhook at the current position."""
        for name in self._hooks:
            if await self._store.position_of_hook(name) is None:
                await self._store.start_hook(name, await self._store.newest_position())
            if await self._store.position_of_hook(_broadcast_position_key(name)) is None:
                await self._store.start_hook(_broadcast_position_key(name), await self._bus.head())

    async def run(self, held: Leadership) -> None:
        """Runs while this process leads; the next leader repeats deliveries in progress."""
        async with asyncio.TaskGroup() as sending:
            while held.is_held():
                self._woken.clear()
                with suppress(StoreFailed):  # unavailable; the journal still has the records
                    for name in await self._fill_outbox(held):
                        if name not in self._sending:
                            self._sending.add(name)
                            sending.create_task(self._send_due(name))
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._woken.wait()

    async def fill_and_send_outbox(self, leader: Leadership) -> None:
        """Stores deliveries of all new records, and sends all that are due."""
        await asyncio.gather(*(self._send_due(name) for name in await self._fill_outbox(leader)))

    async def _fill_outbox(self, leader: Leadership) -> Sequence[str]:
        """Stores deliveries of all new records; returns the webhooks with pending ones."""
        for name, hook in self._hooks.items():
            await self._enqueue_event_deliveries(name, hook, leader)
            await self._enqueue_broadcast_deliveries(name, hook, leader)
        return await self._store.hooks_due(self._clock.now_ms())

    async def _send_due(self, name: str) -> None:
        try:
            while due := await self._store.due_deliveries(name, self._clock.now_ms(), CONCURRENT_SENDS_MAX):
                async with asyncio.TaskGroup() as sending:
                    for delivery in due:
                        sending.create_task(self._send(delivery))
        except* StoreFailed:
            pass  # as above
        finally:
            self._sending.discard(name)

    async def _enqueue_event_deliveries(self, name: str, hook: OutgoingHook, leader: Leadership) -> None:
        position = await self._store.position_of_hook(name) or 0
        while page := await self._store.since(position, PAGE):
            position = page[-1].position
            deliveries = list(deliveries_of(name, hook, page, self._clock.now_ms(), self._public_url))
            await self._enqueue_redacted(name, position, deliveries, leader)

    async def _enqueue_broadcast_deliveries(self, name: str, hook: OutgoingHook, leader: Leadership) -> None:
        """Stores deliveries of broadcasts, which have their own order and so their own position."""
        patterns = [what.removeprefix(BROADCAST) for what in hook.on if what.startswith(BROADCAST)]
        position = await self._store.position_of_hook(_broadcast_position_key(name)) or 0
        while patterns and (page := await self._bus.since(position, PAGE)):
            position = page[-1][0]
            chosen = [each for _, each in page if any(matches(pattern, each.type) for pattern in patterns)]
            deliveries = [_broadcast_delivery(name, each, self._clock.now_ms()) for each in chosen]
            await self._enqueue_redacted(_broadcast_position_key(name), position, deliveries, leader)

    async def _enqueue_redacted(
        self, position_key: str, position: int, deliveries: Sequence[WebhookDelivery], leader: Leadership
    ) -> None:
        """Removes secrets, also from records stored before a secret was known."""
        redacted = [msgspec.structs.replace(delivery, body=self._redact(delivery.body)) for delivery in deliveries]
        await self._store.enqueue_deliveries(position_key, position, redacted, leader)

    async def _send(self, delivery: WebhookDelivery) -> None:
        sender = self._senders.get(delivery.hook)
        try:
            if sender is None:
                raise WebhookNotSent(f"webhook '{delivery.hook}' no longer exists", for_good=True)
            await sender.send(delivery)
        except WebhookNotSent as error:
            await self._store.reschedule_delivery(self._with_next_attempt(delivery, error))
        except Exception as error:  # a bug of ours: it must not stop the deliveries after this one
            _log.exception("webhook %s: %s could not be sent", delivery.hook, delivery.key)
            failed = WebhookNotSent(f"{type(error).__name__}; see the server's log")
            await self._store.reschedule_delivery(self._with_next_attempt(delivery, failed))
        else:
            await self._store.ack_delivery(delivery)

    def _with_next_attempt(self, delivery: WebhookDelivery, error: WebhookNotSent) -> WebhookDelivery:
        dead = error.for_good or delivery.attempts >= len(RETRY_DELAYS_MS)
        _log.log(
            logging.ERROR if dead else logging.WARNING,
            "webhook %s did not accept %s: %s%s",
            delivery.hook,
            delivery.key,
            error,
            "; it is not tried again" if dead else "",
        )
        pause_ms = 0 if dead else RETRY_DELAYS_MS[delivery.attempts]
        return msgspec.structs.replace(
            delivery,
            attempts=delivery.attempts + 1,
            due_at=self._clock.now_ms() + pause_ms,
            dead=dead,
            error=str(error)[:500],
        )


def _broadcast_position_key(name: str) -> str:
    """The key of a webhook's position among broadcasts."""
    return f"{name}{BROADCAST_POSITION}"


def _broadcast_delivery(name: str, broadcast: Broadcast, now: int) -> WebhookDelivery:
    body = {"type": "broadcast", "timestamp": _iso_time(broadcast.created_at), "data": broadcast}
    return WebhookDelivery(hook=name, key=broadcast.id, body=msgspec.json.encode(body), due_at=now)


def _iso_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def deliveries_of(
    name: str, hook: OutgoingHook, page: Sequence[StoredRecord], now: int, public_url: str = ""
) -> Iterator[WebhookDelivery]:
    """The deliveries of some records to a webhook."""
    wanted = {OUTGOING_EVENTS[what]: what for what in hook.on if what in OUTGOING_EVENTS}
    for stored in page:
        events = list(public_events(stored.run, stored.record))
        for n, event in enumerate(events):
            if (what := wanted.get(event["type"])) is not None:
                data = _external_view(event, events[n + 1 :], public_url) if what == "external" else event
                body = msgspec.json.encode({"type": what, "timestamp": _iso_time(event["at"]), "data": data})
                yield WebhookDelivery(hook=name, key=f"{event['run']}:{event['seq']}", body=body, due_at=now)


def _external_view(event: PublicEvent, following: Sequence[PublicEvent], public_url: str) -> PublicEvent:
    """An external signal, with the address to answer it if the run waits for that."""
    body = {**event, "name": event["signal"], "agent_id": event["agent"]}
    if not event["requires_response"]:
        return body
    asked = next(each for each in following if each["type"] == "input.requested")
    run = quote(event["run"], safe="")
    answer = {"token": asked["token"], "method": "POST", "path": f"/v1/runs/{run}/resume"}
    url = {"url": f"{public_url}{answer['path']}"} if public_url else {}
    return {**body, "answer": {**answer, **url}}
