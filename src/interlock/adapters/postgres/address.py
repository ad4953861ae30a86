"""The address of a PostgreSQL store: `postgres://user@host:5432/database?schema=interlock`.

Rule 1: a secret never leaves this value: `str` and `repr` show the address without the password.
Rule 2: a server on another machine is reached with `sslmode=verify-full`, or with a lower mode that the address names.
"""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from interlock.adapters.config.store_settings import SECRET_PARAMETERS
from interlock.errors import UsageError, nearest

SCHEMES = ("postgres", "postgresql")
DEFAULT_SCHEMA = "interlock"

# Longer names are cut by PostgreSQL; the channel and the roles add a few letters.
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")

# Others may have made tables and functions there, which functions of the store would call as its owner.
_OF_OTHERS = ("public", "information_schema")

NO_SECRETS: Mapping[str, str] = {}


class PostgresAddress:
    """A parsed address. `parameters` are those of libpq, with the password if the address has one."""

    def __init__(self, url: str, *, secrets: Mapping[str, str] = NO_SECRETS) -> None:
        """`secrets` are parameters that are not in the URL, as the password."""
        try:
            parts = urlsplit(url)
        except ValueError:  # brackets that do not match
            raise _not_readable_error() from None
        if parts.scheme not in SCHEMES:
            raise UsageError("the address of a PostgreSQL store begins with 'postgres://'")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.schema = query.pop("schema", DEFAULT_SCHEMA)
        if not _SCHEMA.fullmatch(self.schema) or self.schema.startswith("pg_"):
            raise UsageError(
                f"'{self.schema}' cannot be the schema of a store; use up to 40 small letters, digits and '_'"
            )
        if self.schema in _OF_OTHERS:
            raise UsageError(f"the schema '{self.schema}' is not a store's own; name another one with 'schema='")
        _require_known_names(query)
        self.parameters = _parameters_of(url.partition("?")[0], query)
        self.parameters.update(secrets)
        self._learned: set[str] = set()
        _require_tls(self.parameters)

    def conninfo(self, **more: Any) -> str:
        """The connection string of libpq. It may hold the password: never show it."""
        return make_conninfo("", **{**self.parameters, **more})

    @property
    def channel(self) -> str:
        """The channel of notifications."""
        return f"interlock_{self.schema}"

    def learn_secrets(self, found: Iterable[str]) -> None:
        """Keeps secrets that libpq found elsewhere: in PGPASSWORD, a file of passwords or one of services."""
        self._learned.update(value for value in found if value)

    def secrets(self) -> Sequence[str]:
        """The secrets of the address, and those with which connections were opened."""
        given = {str(self.parameters.get(name) or "") for name in SECRET_PARAMETERS}
        return sorted((given | self._learned) - {""})

    def redact(self, text: str) -> str:
        """A message of the driver without the secrets of this address."""
        for value in {*self.secrets(), str(self.parameters.get("passfile") or "")} - {""}:
            for form in {value, quote(value), quote(value, safe="")}:
                text = text.replace(form, "***")
        return text

    def __str__(self) -> str:
        shown = self.parameters
        user = f"{quote(str(shown['user']))}@" if shown.get("user") else ""
        return f"postgres://{user}{_hosts_of(shown)}/{shown.get('dbname') or ''}?schema={self.schema}"

    def __repr__(self) -> str:
        return f"PostgresAddress({str(self)!r})"


def _require_known_names(query: Mapping[str, str]) -> None:
    """Names an unknown parameter, if it can be no part of a password with a '&' in it."""
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()} | {"schema", "password_env"}
    for name in query:
        if name not in known and re.fullmatch(r"[a-z_]{3,30}", name):
            advice = nearest(name, sorted(known), "it has those of libpq, schema and password_env")
            raise UsageError(f"the address of a PostgreSQL store has no parameter '{name}'; {advice}")


def _parameters_of(base: str, query: dict[str, str]) -> dict[str, Any]:
    """Reads the address without its query by libpq's own rules, then adds the query."""
    try:
        return conninfo_to_dict(make_conninfo(base, **query))
    except psycopg.Error:  # its message may repeat the password
        raise _not_readable_error() from None


def _not_readable_error() -> UsageError:
    return UsageError("the address of the PostgreSQL store cannot be read; check its parameters")


def _hosts_of(parameters: dict[str, Any]) -> str:
    hosts = str(parameters.get("host") or parameters.get("hostaddr") or "").split(",")
    ports = str(parameters.get("port") or "").split(",")
    ports += [ports[-1]] * (len(hosts) - len(ports))
    named = [unquote(host) + (f":{port}" if port else "") for host, port in zip(hosts, ports, strict=False)]
    return ",".join(named)


def _require_tls(parameters: dict[str, Any]) -> None:
    """Asks for `verify-full` where nothing is said and a host is not this machine."""
    if "sslmode" not in parameters and os.environ.get("PGSSLMODE"):
        parameters["sslmode"] = os.environ["PGSSLMODE"]
    if "sslmode" in parameters or all(is_this_machine(host) for host in _targets(parameters)):
        return
    parameters["sslmode"] = "verify-full"
    if not os.environ.get("PGSSLROOTCERT") and not Path("~/.postgresql/root.crt").expanduser().exists():
        parameters.setdefault("sslrootcert", "system")


def _targets(parameters: dict[str, Any]) -> list[str]:
    """The hosts as libpq finds them; those of a service are known only when it is connected (`server_checks`)."""
    named = parameters.get("hostaddr") or parameters.get("host") or os.environ.get("PGHOSTADDR")
    return str(named or os.environ.get("PGHOST") or "").split(",")


def is_this_machine(host: str) -> bool:
    """Whether a host is the loopback or a Unix socket."""
    if host in ("", "localhost") or host.startswith(("/", "@")):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
