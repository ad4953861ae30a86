"""Settings of a server with which a store is refused, and those of which it warns.

Rule: what is acknowledged must survive a crash of the server, so a server that may lose it is refused.
"""

import time
from typing import NamedTuple

from interlock.adapters.postgres.address import PostgresAddress, is_this_machine
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.errors import StoreFailed

# Sessions that idle are ended by the server from this version on.
VERSION_MIN = 140_000
CLOCK_WARN_MS, CLOCK_MAX_MS = 1_000, 30_000

_ASK = (
    "select current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('server_encoding'), current_setting('data_checksums'),"
    " current_setting('synchronous_standby_names'),"
    " (select rolsuper from pg_roles where rolname = current_user),"
    " pg_backend_pid(), (extract(epoch from clock_timestamp()) * 1000)::bigint"
)

# A pooler gives each client a number of its own in place of that of the server's process.
_POOLED = (
    "the address leads to a connection pooler, which ends sessions and drops their settings; name the server itself"
)


class PostgresSettings(NamedTuple):
    """What a server says of itself. `ahead_ms` is how far its clock is ahead of this process's."""

    version: int
    synchronous_commit: str
    fsync: str
    full_page_writes: str
    encoding: str
    checksums: str
    standbys: str
    is_superuser: bool
    is_pooled: bool
    ahead_ms: int
    is_in_the_clear: bool


def read_settings(connection: PostgresConnection, address: PostgresAddress) -> PostgresSettings:
    before = time.time_ns()
    found = connection.execute(_ASK).fetchone()
    assert found is not None, "a select without a table has a row"
    is_in_the_clear = not connection.pgconn.ssl_in_use and "sslmode" not in address.parameters
    is_elsewhere = not is_this_machine(connection.info.hostaddr or connection.info.host)
    *settings, process, now_ms = found
    return PostgresSettings._make(
        (
            connection.info.server_version,
            *settings,
            process != connection.info.backend_pid,
            now_ms - (before + time.time_ns()) // 2_000_000,
            is_in_the_clear and is_elsewhere,
        )
    )


def require_direct(connection: PostgresConnection) -> None:
    """`StoreFailed` behind a pooler: a schema made there may end up in another place."""
    found = connection.execute("select pg_backend_pid()").fetchone()
    if found != (connection.info.backend_pid,):
        raise StoreFailed(_POOLED)


def require_safe_settings(found: PostgresSettings) -> None:
    """`StoreFailed` for a server that may lose what it has acknowledged, or that cannot tell who is alive."""
    require_readable(found)
    for name in ("synchronous_commit", "fsync", "full_page_writes"):
        if getattr(found, name) == "off":
            raise StoreFailed(f"the server runs with {name} = off and may lose what it has acknowledged; set it to on")
    if abs(found.ahead_ms) > CLOCK_MAX_MS:
        raise StoreFailed(
            f"the clocks of this machine and of the server differ by {abs(found.ahead_ms) // 1000} s; set them"
        )


def require_readable(found: PostgresSettings) -> None:
    """`StoreFailed` for a server that cannot be read from safely, also if it keeps only a copy."""
    if found.is_pooled:
        raise StoreFailed(_POOLED)
    if found.version < VERSION_MIN:
        raise StoreFailed(f"PostgreSQL {found.version // 10_000} is too old; use 14 or newer")
    if found.encoding != "UTF8":
        raise StoreFailed(f"the database has the encoding {found.encoding}; make one with the encoding UTF8")
    if found.is_in_the_clear:
        raise StoreFailed("the connection to another machine is not encrypted; name an 'sslmode' in the address")


def warnings_of(found: PostgresSettings) -> list[str]:
    """What is not refused, and better otherwise."""
    checks = (
        (abs(found.ahead_ms) > CLOCK_WARN_MS, f"its clock and this machine's differ by {abs(found.ahead_ms)} ms"),
        (found.checksums == "off", "it has no data checksums, so damage on its disk is noticed late"),
        (not found.standbys, "it has no synchronous standby, so the loss of its machine loses the newest records"),
        (found.is_superuser, "this process is a superuser there; use a role of 'interlock store grant'"),
    )
    return [text for is_so, text in checks if is_so]
