"""Two stores to walk on, and changes of a function in SQL that a walk must find."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import PostgresConnection, connect
from tests.adapters.postgres.bus.bus_walk import DifferenceFound
from tests.postgres import shared_schemas

Stores = tuple[PostgresConnection, PostgresConnection]
Walk = Callable[[random.Random, PostgresConnection, PostgresConnection], None]

# Histories until a planted difference must be found.
FOUND_WITHIN = 250

# A walk is one transaction. Where the machine is busy it may stand still for seconds between two statements, and the
# server must not end its session: all tests after it use the same.
_connect = partial(connect, idle_in_transaction_session_timeout="0", statement_timeout="0", lock_timeout="0")
_DEADLINE_S = 300.0


@contextmanager
def two_stores() -> Iterator[Stores]:
    """Connections to two empty stores: one for the rules in Python, one for the functions."""
    with ExitStack() as stack:
        urls = [stack.enter_context(shared_schemas().borrow()) for _ in range(2)]
        python, functions = (stack.enter_context(_connect_patiently(url)) for url in urls)
        functions.execute("select make_partition('2027-01-01')")
        yield python, functions


def _connect_patiently(url: str) -> PostgresConnection:
    connection = _connect(PostgresAddress(url))
    connection.deadline_s = _DEADLINE_S
    return connection


def require_found(walk: Walk, stores: Stores, function: str, old: str, new: str) -> None:
    """Changes a function, and fails unless a walk finds a difference soon."""
    python, functions = stores
    definition = _definition(functions, function)
    assert old in definition, f"'{old}' is not in {function} any more: plant another difference"
    functions.execute(definition.replace(old, new).encode())
    try:
        with pytest.raises(DifferenceFound):
            for seed in range(FOUND_WITHIN):
                walk(random.Random(seed), python, functions)
    finally:
        functions.execute(definition.encode())


def _definition(connection: PostgresConnection, function: str) -> str:
    query = "select pg_get_functiondef(oid) from pg_proc where proname = %s"
    found = connection.execute(f"{query} and pronamespace = current_schema()::regnamespace", (function,)).fetchone()
    assert found is not None
    return str(found[0])
