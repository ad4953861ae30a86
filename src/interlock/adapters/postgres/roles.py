"""The roles of a store and what each may do."""

from importlib.resources import files

from interlock.adapters.postgres.address import PostgresAddress
from interlock.adapters.postgres.connection import connect
from interlock.adapters.postgres.failures import as_postgres_failure
from interlock.adapters.postgres.server_checks import require_direct

OWNER_ROLE = "interlock_owner"
ROLES = (OWNER_ROLE, "interlock_app", "interlock_read")


def role_statements() -> str:
    """The SQL that makes the roles and grants what they may; for those who run it by hand, in the store's schema."""
    return files("interlock.adapters.postgres").joinpath("roles.sql").read_text("utf-8")


def grant_roles(address: PostgresAddress) -> None:
    """Makes the roles; `StoreFailed` if this user may not. A migration grants them again."""
    with (
        as_postgres_failure(f"grant the roles of '{address}'", address),
        connect(address) as connection,
        connection.transaction(),
    ):
        require_direct(connection)
        connection.execute(role_statements().encode())
