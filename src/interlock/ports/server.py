"""Tables of the server: idempotent requests, sessions, webhook deliveries and counts."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from interlock.ports.processes.leaders import Leadership


class IdempotentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request with a key of its caller; `planned` is the id of what it creates."""

    caller: str
    key: str
    fingerprint: bytes
    planned: str
    at: int
    status: int = 0
    body: bytes = b""


class IdempotencyStore(Protocol):
    """Requests and their responses, stored so that a repeated request has no second effect."""

    async def register_request(self, request: IdempotentRequest, *, forget_before: int) -> IdempotentRequest:
        """Returns the first request under this key, which may be this one; `status` is 0 while it has no response."""
        ...

    async def store_response(self, request: IdempotentRequest) -> None:
        """Stores status and body as the response."""
        ...


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send to a webhook. `key` is the same on every attempt.

    A dead one is not tried again; `due_at` is then the time since when.
    """

    hook: str
    key: str
    body: bytes
    number: int = 0
    attempts: int = 0
    due_at: int = 0
    dead: bool = False
    error: str = ""


# Ends the key of a webhook's position among broadcasts; ids of webhooks contain no blanks.
BROADCAST_POSITION = " broadcasts"


class WebhookOutbox(Protocol):
    """Messages to send to webhooks, as durable as the records that they report."""

    async def position_of_hook(self, hook: str) -> int | None:
        """The position up to which this webhook has read; None before its first read."""
        ...

    async def start_hook(self, hook: str, position: int) -> None:
        """Stores the first position of a webhook; does nothing if it has one."""
        ...

    async def enqueue_deliveries(
        self, hook: str, position: int, deliveries: Sequence[WebhookDelivery], leader: Leadership
    ) -> None:
        """Stores deliveries and advances the webhook's position, both or neither.

        `NotLeader`, with nothing stored, if another process has led `leader.name` since.
        """
        ...

    async def hooks_due(self, now: int) -> Sequence[str]:
        """The webhooks that have a delivery due, also those that are no longer configured."""
        ...

    async def due_deliveries(self, hook: str, now: int, limit: int) -> Sequence[WebhookDelivery]: ...

    async def ack_delivery(self, delivery: WebhookDelivery) -> None: ...

    async def reschedule_delivery(self, delivery: WebhookDelivery) -> None:
        """Stores attempts, `due_at`, `dead` and `error` of a delivery; of dead ones only the newest are kept."""
        ...

    async def dead_letter(self, number: int) -> WebhookDelivery | None: ...

    async def dead_letters(self, limit: int, before: int | None = None) -> Sequence[WebhookDelivery]:
        """The newest first; those before a number. Pages as of `RecordFeed.since`."""
        ...

    async def retry_dead_letter(self, number: int, at: int) -> WebhookDelivery | None:
        """Makes a dead letter due at a time, with no attempts. Returns it as it was, if there is one."""
        ...

    async def discard_dead_letter(self, number: int) -> bool:
        """Deletes a dead letter. Returns whether there was one."""
        ...


class FolderCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts for monitoring. `runs` are crew, status and number of live runs."""

    runs: tuple[tuple[str, str, int], ...] = ()
    questions: int = 0
    oldest_question_at: int = 0
    letters_waiting: int = 0
    letters_dead: int = 0
    broadcasts_dead: int = 0
    schedules: int = 0
    schedules_failed: int = 0
    next_schedule_at: int = 0
