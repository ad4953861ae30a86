"""The clock of a PostgreSQL store: the wall-clock time of the server."""

from interlock.adapters.postgres.session import OwnerSession
from interlock.ports import Clock


class ServerClock:
    """`Clock` whose wall-clock time is the server's, so that all processes agree; all else is that of `local`.

    While the server is away it continues from what it said last. A local clock that is set does not change it.
    """

    def __init__(self, session: OwnerSession, local: Clock) -> None:
        self._session, self._local = session, local

    def now_ms(self) -> int:
        return self._local.now_ms() + self._session.ahead_ms()

    def monotonic_ms(self) -> int:
        return self._local.monotonic_ms()

    async def sleep_until(self, monotonic_ms: int) -> None:
        await self._local.sleep_until(monotonic_ms)
