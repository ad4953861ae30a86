"""Translates errors of PostgreSQL and its driver to the errors of a port.

Rule 1: no error of the driver passes the adapter, and no secret of the address is in a message.
Rule 2: a failure passes unless the statement itself is wrong: a server that is away comes back.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from interlock.adapters.postgres.address import PostgresAddress
from interlock.errors import StorageFull, StoreFailed

# SQLSTATE classes and codes.
_FULL = {"53100"}
_NO_PARTITION = "23514"
# A session that idled too long in a transaction, or had one for too long; and a server that takes no writes any more,
# because another one became the primary: a new connection finds that.
_SESSION_ENDS = {"25P03", "25P04", "25006"}

# Classes of failures that a retry does not heal: data, syntax, privileges, and what this adapter got wrong.
_LASTING_CLASSES = {"22", "23", "26", "28", "34", "38", "39", "3D", "3F", "42", "0A", "P0"}

# What to do about messages of the server and of libpq.
_ADVICE = {
    "unsupported startup parameter": "the address leads to a connection pooler, name the server itself",
    "no password supplied": "name a variable that holds the password with ?password_env=NAME, or set PGPASSFILE",
    "password authentication failed": "check the user of the address, and its password",
    "Connection refused": "check the host and port of the address, and whether PostgreSQL runs there",
    "permission denied for database": "let this role make the schema with 'grant create on database', or let the owner"
    " of the database run 'interlock store init'",
    "permission denied for": "'interlock store grant' makes roles with the rights of a store: let this role be a member"
    " of interlock_app, or of interlock_owner to change the schema",
}

# A value that the driver refuses to send.
_LASTING = (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError, OverflowError, UnicodeError)

# Besides errors of the driver: a value that PostgreSQL cannot hold, and a socket that failed.
FOREIGN = (psycopg.Error, OSError, OverflowError, UnicodeError)


class DeadlineExceeded(psycopg.OperationalError):
    """The server did not answer in time; the connection was aborted, and the outcome is unknown."""


class LastingFailure(StoreFailed):
    """PostgreSQL refused a statement; a retry does not help."""

    passes = False


@contextmanager
def as_postgres_failure(doing: str, address: PostgresAddress) -> Iterator[None]:
    """Raises errors of the driver as `StoreFailed`, without their cause: it may hold a secret."""
    try:
        yield
    except FOREIGN as error:
        raise postgres_failure_of(doing, error, address) from None


def postgres_failure_of(doing: str, error: Exception, address: PostgresAddress) -> StoreFailed:
    """The error for the caller. It has no cause: connection strings are in the errors of the driver."""
    text = address.redact(" ".join(str(error).split())) or type(error).__name__
    advice = next((f"; {advice}" for words, advice in _ADVICE.items() if words in text), "")
    return _kind_of(error)(f"could not {doing}: {text}{advice}")


def _kind_of(error: Exception) -> type[StoreFailed]:
    code = sqlstate_of(error)
    if code in _FULL:
        return StorageFull
    is_lasting = code[:2] in _LASTING_CLASSES or isinstance(error, _LASTING)
    return LastingFailure if is_lasting else StoreFailed


def sqlstate_of(error: BaseException | None) -> str:
    """The code of the server, or "" for what does not come from it."""
    return (getattr(error, "sqlstate", None) or "") if isinstance(error, psycopg.Error) else ""


def lacks_partition(error: BaseException) -> bool:
    """Whether a record belongs to a month that has no partition yet. A broken rule of a table has a name."""
    is_unnamed = not isinstance(error, psycopg.Error) or error.diag.constraint_name is None
    return sqlstate_of(error) == _NO_PARTITION and is_unnamed


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection failed, so that the outcome of a statement may be unknown.

    08: the connection; 57P: the server is going down, or ended a session that idled.
    """
    code = sqlstate_of(error)
    if isinstance(error, OSError | DeadlineExceeded):
        return True
    is_of_driver = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return (is_of_driver and (code == "" or code[:2] == "08" or code[:3] == "57P")) or code in _SESSION_ENDS
