"""A store in a schema of a PostgreSQL database: what its server does, and what stays with the host."""

import asyncio
import os
import shlex
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interlock.adapters.files.served_folder import require_key
from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.migrate import migrate, require_store
from interlock.adapters.postgres.moving import hold_schema
from interlock.adapters.postgres.opening import open_copy, open_postgres
from interlock.adapters.postgres.roles import ROLES, grant_roles
from interlock.adapters.postgres.store import PostgresStore
from interlock.compose.stores.store_home import OpenedHome, ServerKeyPlace, StoreNotes
from interlock.compose.stores.store_url import STORE_VARIABLE, PostgresUrl, parse_store
from interlock.errors import RecordsMissing, UsageError
from interlock.ports import Clock
from interlock.ports.moving import MovableStore

# The key of the servers of one store: all of them need the same one.
KEY_VARIABLE = "INTERLOCK_SERVER_KEY"


class PostgresServer:
    """The home of a PostgreSQL store. Any number of servers and workers use it."""

    folder: Path | None = None

    def __init__(self, given: PostgresUrl) -> None:
        self._given = given
        self._address = PostgresAddress(given.url, secrets=given.secrets)

    @property
    def name(self) -> str:
        return str(self._address)

    @property
    def key(self) -> str:
        return str(self._address)

    def identity(self) -> Hashable:
        return None

    @property
    def option(self) -> str:
        """A password is not printed; where the variable names this store, the next command finds it there too."""
        if (named := os.environ.get(STORE_VARIABLE)) and parse_store(named) == self._given:
            return ""
        url, variable = self._given.url, self._given.password_env
        more = f"{'&' if '?' in url else '?'}password_env={variable}" if variable else ""
        return f" --store {shlex.quote(url + more)}"

    def secrets(self) -> Sequence[str]:
        key = os.environ.get(KEY_VARIABLE, "").strip()
        return [*self._address.secrets(), *([key] if key else ())]

    async def open(self, durability: str, clock: Clock) -> OpenedHome:
        """The durability is that of the server's commits: [durability] is for data folders."""
        opened = await asyncio.to_thread(open_postgres, self._address, clock)
        assert isinstance(opened.store, PostgresStore), "this home opens no other"
        warnings = [f"{self.name}: {warning}" for warning in opened.store.warnings]
        return OpenedHome(opened.store, *opened[1:], warnings=warnings)

    async def open_to_read(self, durability: str, clock: Clock) -> OpenedHome:
        return await self.open(durability, clock)

    async def open_copy(self, clock: Clock) -> OpenedHome:
        opened = await asyncio.to_thread(open_copy, self._address, clock)
        assert isinstance(opened.store, PostgresStore), "this home opens no other"
        warnings = [f"{self.name}: {warning}" for warning in opened.store.warnings]
        return OpenedHome(opened.store, *opened[1:], is_read_only=True, warnings=warnings)

    async def initialize(self, durability: str) -> None:
        await asyncio.to_thread(migrate, self._address)

    async def grant_roles(self) -> str:
        await asyncio.to_thread(grant_roles, self._address)
        return ", ".join(ROLES)

    def is_read_only(self) -> bool:
        return False

    def require_exists(self) -> None:
        require_store(self._address)

    def size_bytes(self) -> int | None:
        return None

    def find_missing_records(self) -> RecordsMissing | None:
        return None

    @contextmanager
    def hold_for_move(self, *, create: bool) -> Iterator[MovableStore]:
        if create:
            migrate(self._address)
        with hold_schema(self._address) as held:
            yield held

    @contextmanager
    def hold_server_lock(self) -> Iterator[None]:
        """Any number of servers may serve it."""
        yield

    def ensure_server_key(self) -> ServerKeyPlace:
        """The servers of one store share a key, so it is given to each of them."""
        return ServerKeyPlace(require_key(KEY_VARIABLE, os.environ.get(KEY_VARIABLE, "").strip()), KEY_VARIABLE)

    @contextmanager
    def examine(self, durability: str, found: StoreNotes) -> Iterator[None]:
        """All that belongs to the store is in its tables."""
        yield

    def open_notes(self) -> Sequence[str]:
        return ()

    async def accept_loss(self, durability: str) -> RecordsMissing | None:
        raise UsageError("--accept-loss is for data folders; PostgreSQL keeps its own log of changes")

    async def backup(self, file: Path, durability: str) -> str:
        raise UsageError(
            f"'{self.name}' is a database of a server, which is copied by its own tools: pg_dump"
            f" --schema={self._address.schema}, a base backup, or point-in-time recovery (PITR) from archived logs;"
            " --logical writes the runs alone"
        )

    async def compact(self, durability: str) -> tuple[int, int]:
        raise UsageError(f"'{self.name}' needs no compacting: autovacuum of PostgreSQL frees the space of deleted rows")
