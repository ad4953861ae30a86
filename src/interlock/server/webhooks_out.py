"""Webhooks out: run endings, questions and external signals, told to whoever interlock.toml names.

Rule 1: the journal is what is told of. Each webhook has a place in it; letters are written and the place is moved on in
one transaction, so that nothing that was stored is forgotten, whoever stored it and however this process ends.
Rule 2: at least once, with the same id on every try; what was tried often enough is dead, and kept.
Rule 3: a webhook that is new begins with what comes: nobody is told of the past.
Rule 4: each has a task of its own while it has letters, so that a receiver that is slow or gone holds up nobody else.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import quote

import msgspec

from interlock.adapters.webhook_sender import NotSent, WebhookSender
from interlock.adapters.webhook_settings import BROADCAST, TOLD, OutgoingHook
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import Broadcast
from interlock.engine.events import ExternalSent, InputRequested, RunFinished
from interlock.errors import StoreFailed
from interlock.ports import Bus, Clock, Feed, Letter, Letters, StoredRecord
from interlock.runtime.watching import Public, public_events

_log = logging.getLogger("interlock.server")

# How long a receiver that failed is left alone, try by try; after the last the letter is dead.
PAUSES_MS = (5_000, 30_000, 120_000, 600_000, 3_600_000, 21_600_000)

# Letters under way at once to one receiver.
AT_ONCE = 16
PAGE = 200
LOOK_AGAIN_S = 1.0


class Store(Feed, Letters, Protocol):
    """What is read, and where letters are kept."""


class WebhooksOut:
    """Tells webhooks what happened: one task that writes letters, and one for each webhook that has some."""

    def __init__(
        self,
        store: Store,
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

    def wake(self, stored: StoredRecord) -> None:
        """Told by the runner that something was stored."""
        if any(isinstance(event, RunFinished | InputRequested | ExternalSent) for event in stored.record.events):
            self._woken.set()

    async def begin(self) -> None:
        """A webhook that was never here before begins now."""
        for name in self._hooks:
            if await self._store.read_up_to(name) is None:
                await self._store.post(name, await self._store.newest_position(), ())
            if await self._store.read_up_to(_of_broadcasts(name)) is None:
                await self._store.post(_of_broadcasts(name), await self._bus.head(), ())

    async def run(self) -> None:
        """Until it is cancelled; what is under way then is sent again by the next server."""
        async with asyncio.TaskGroup() as sending:
            while True:
                self._woken.clear()
                with suppress(StoreFailed):  # it is away; what is to be told is in the journal
                    for name in await self._written():
                        if name not in self._sending:
                            self._sending.add(name)
                            sending.create_task(self._send_all(name))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN_S):
                        await self._woken.wait()

    async def told(self) -> None:
        """Writes letters of all that happened, and sends all that are due."""
        await asyncio.gather(*(self._send_all(name) for name in await self._written()))

    async def _written(self) -> Sequence[str]:
        """The webhooks that have letters to send, once those of all that happened are written."""
        for name, hook in self._hooks.items():
            await self._write_letters(name, hook)
            await self._write_broadcasts(name, hook)
        return await self._store.hooks_due(self._clock.now_ms())

    async def _send_all(self, name: str) -> None:
        try:
            while due := await self._store.due(name, self._clock.now_ms(), AT_ONCE):
                async with asyncio.TaskGroup() as sending:
                    for letter in due:
                        sending.create_task(self._send(letter))
        except* StoreFailed:
            pass  # as above
        finally:
            self._sending.discard(name)

    async def _write_letters(self, name: str, hook: OutgoingHook) -> None:
        position = await self._store.read_up_to(name) or 0
        while page := await self._store.since(position, PAGE):
            position = page[-1].position
            await self._post(name, position, list(letters_of(name, hook, page, self._clock.now_ms(), self._public_url)))

    async def _write_broadcasts(self, name: str, hook: OutgoingHook) -> None:
        """Broadcasts have an order of their own, and so a place."""
        patterns = [what.removeprefix(BROADCAST) for what in hook.on if what.startswith(BROADCAST)]
        position = await self._store.read_up_to(_of_broadcasts(name)) or 0
        while patterns and (page := await self._bus.since(position, PAGE)):
            position = page[-1][0]
            chosen = [each for _, each in page if any(matches(pattern, each.type) for pattern in patterns)]
            letters = [_broadcast_letter(name, each, self._clock.now_ms()) for each in chosen]
            await self._post(_of_broadcasts(name), position, letters)

    async def _post(self, place: str, position: int, letters: Sequence[Letter]) -> None:
        """What was stored before a secret was known is not told either."""
        redacted = [msgspec.structs.replace(letter, body=self._redact(letter.body)) for letter in letters]
        await self._store.post(place, position, redacted)

    async def _send(self, letter: Letter) -> None:
        sender = self._senders.get(letter.hook)
        try:
            if sender is None:
                raise NotSent(f"there is no webhook '{letter.hook}' any more", for_good=True)
            await sender.send(letter)
        except NotSent as error:
            await self._store.put_off(self._put_off(letter, error))
        except Exception as error:  # a fault of ours: it must not silence the letters after this one
            _log.exception("webhook %s: %s could not be sent", letter.hook, letter.key)
            failed = NotSent(f"{type(error).__name__}; the log of the server tells more")
            await self._store.put_off(self._put_off(letter, failed))
        else:
            await self._store.sent(letter)

    def _put_off(self, letter: Letter, error: NotSent) -> Letter:
        dead = error.for_good or letter.attempts >= len(PAUSES_MS)
        _log.log(
            logging.ERROR if dead else logging.WARNING,
            "webhook %s did not take %s: %s%s",
            letter.hook,
            letter.key,
            error,
            "; it is not tried again" if dead else "",
        )
        pause_ms = 0 if dead else PAUSES_MS[letter.attempts]
        return msgspec.structs.replace(
            letter,
            attempts=letter.attempts + 1,
            due_at=self._clock.now_ms() + pause_ms,
            dead=dead,
            error=str(error)[:500],
        )


def _of_broadcasts(name: str) -> str:
    """Under this name a webhook's place among broadcasts is kept; no id of a webhook holds a blank."""
    return f"{name} broadcasts"


def _broadcast_letter(name: str, broadcast: Broadcast, now: int) -> Letter:
    body = {"type": "broadcast", "timestamp": _time(broadcast.created_at), "data": broadcast}
    return Letter(hook=name, key=broadcast.id, body=msgspec.json.encode(body), due_at=now)


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def letters_of(
    name: str, hook: OutgoingHook, page: Sequence[StoredRecord], now: int, public_url: str = ""
) -> Iterator[Letter]:
    """What of some records a webhook is told."""
    wanted = {TOLD[what]: what for what in hook.on if what in TOLD}
    for stored in page:
        events = list(public_events(stored.run, stored.record))
        for n, event in enumerate(events):
            if (what := wanted.get(event["type"])) is not None:
                data = _external(event, events[n + 1 :], public_url) if what == "external" else event
                body = msgspec.json.encode({"type": what, "timestamp": _time(event["at"]), "data": data})
                yield Letter(hook=name, key=f"{event['run']}:{event['seq']}", body=body, due_at=now)


def _external(event: Public, following: Sequence[Public], public_url: str) -> Public:
    """An external signal, with the way to answer it where the run waits for that."""
    told = {**event, "name": event["signal"], "agent_id": event["agent"]}
    if not event["requires_response"]:
        return told
    asked = next(each for each in following if each["type"] == "input.requested")
    run = quote(event["run"], safe="")
    answer = {"token": asked["token"], "method": "POST", "path": f"/v1/runs/{run}/resume"}
    url = {"url": f"{public_url}{answer['path']}"} if public_url else {}
    return {**told, "answer": {**answer, **url}}
