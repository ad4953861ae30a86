"""Mailboxes and acknowledgements for programs that await them, as in the protocol. The rules are those of `messages`.

Rule 1: nothing polls. A waiting program is woken by the acknowledgement, or by its deadline.
"""

import asyncio
import time

from interlock.messages.mailbox import Mailbox
from interlock.messages.validation import ACK_TIMEOUT_SECONDS, Acknowledgement
from interlock.messages.wire import AnyMessage, Message


class MessageValidator(Acknowledgement):
    """Waits for one message to be acknowledged."""

    def __init__(self, message: Message, timeout: float = ACK_TIMEOUT_SECONDS) -> None:
        self._is_acknowledged = asyncio.Event()
        super().__init__(message, timeout)

    @property
    def acknowledged(self) -> bool:
        return self._is_acknowledged.is_set()

    @acknowledged.setter
    def acknowledged(self, is_acknowledged: bool) -> None:
        if is_acknowledged:
            self._is_acknowledged.set()
        else:
            self._is_acknowledged.clear()

    async def wait_for_ack(self) -> bool:  # type: ignore[override]
        """Waits: True once it is acknowledged, False if that takes longer than `timeout` seconds."""
        try:
            async with asyncio.timeout(self.timeout):
                await self._is_acknowledged.wait()
        except TimeoutError:
            return self.acknowledged
        return True


class AgentMailbox(Mailbox, dict=True):
    """The mail of one agent, for programs that send and receive it themselves."""

    def __post_init__(self) -> None:
        self._waiting: dict[str, MessageValidator] = {}

    async def send(self, message: AnyMessage, now_ms: int | None = None) -> MessageValidator:  # type: ignore[override]
        """Puts a message into the outbox; returns the validator that waits for its acknowledgement."""
        super().send(message, time.monotonic_ns() // 1_000_000 if now_ms is None else now_ms)
        validator = MessageValidator(message, self.ack_timeout_ms / 1000)
        self._waiting[message.message_id] = validator
        return validator

    async def receive(self) -> AnyMessage | None:  # type: ignore[override]
        """The next message, the oldest first; None where there is none."""
        return super().receive()

    def acknowledge(self, message_id: str, response: AnyMessage | None = None) -> None:
        super().acknowledge(message_id, response)
        self._resolve_ack(message_id)

    def deliver(self, message: AnyMessage) -> bool:
        is_new = super().deliver(message)
        if is_new and message.answers:  # an answer says that the question was received
            self._resolve_ack(message.answers)
        return is_new

    def _resolve_ack(self, message_id: str) -> None:
        validator = self._waiting.pop(message_id, None)
        if validator is not None:
            validator.acknowledge()
