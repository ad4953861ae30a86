"""The address of a store: a folder, `sqlite:DIR` or `postgres://user@host:5432,host2:5432/db?schema=…`.

Rule 1: a password is taken out of the address when it is read, so no message, log or record can hold it.
Rule 2: a password comes from `INTERLOCK_STORE`, from the variable that `password_env` names, or from PGPASSFILE. A
file of settings and a command line contain none.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

from interlock.adapters.config.host_sections import require_variable
from interlock.adapters.config.store_settings import SECRET_PARAMETERS, StoreSettings
from interlock.errors import UsageError, nearest

STORE_VARIABLE = "INTERLOCK_STORE"
READ_STORE_VARIABLE = "INTERLOCK_READ_STORE"
DATA_VARIABLE = "INTERLOCK_DATA"
DATA_FOLDER = ".interlock"

SQLITE = "sqlite"
POSTGRES = ("postgres", "postgresql")
_FORMS = "write sqlite:DIR or postgres://user@host:5432/db"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class FolderAddress(NamedTuple):
    """A SQLite database in a data folder."""

    folder: Path


class PostgresUrl(NamedTuple):
    """A PostgreSQL database. `url` has no secret; `password` is empty if PGPASSFILE or none is used.

    `more_secrets` are other parameters of the URL that hold one, as that of the key of a certificate. `password_env`
    is the variable of the password, if the URL names one.
    """

    url: str
    password: str
    more_secrets: tuple[tuple[str, str], ...] = ()
    password_env: str = ""

    @property
    def secrets(self) -> dict[str, str]:
        """All parameters that hold a secret."""
        return {**({"password": self.password} if self.password else {}), **dict(self.more_secrets)}

    def __repr__(self) -> str:
        """Without secrets: tracebacks and logs show what a value looks like."""
        return f"PostgresUrl({self.url!r})"


class ReadStore(NamedTuple):
    """The URL of a copy of the store, to be read. `store` is the store itself; empty if none is named."""

    url: str
    store: str = ""


StoreAddress = FolderAddress | PostgresUrl


def parse_store(named: str | os.PathLike[str], environment: Mapping[str, str] | None = None) -> StoreAddress:
    """Reads the address of a store; a path without a scheme is a data folder."""
    if not isinstance(named, str):
        return FolderAddress(Path(named))
    if named.startswith(f"{SQLITE}:"):
        return FolderAddress(_folder(named.removeprefix(f"{SQLITE}:")))
    scheme = _SCHEME.match(named)
    if scheme is None:
        return FolderAddress(Path(named))
    if scheme[1] not in POSTGRES:
        advice = nearest(scheme[1], (SQLITE, POSTGRES[0]), _FORMS)
        raise UsageError(f"there is no kind of store '{scheme[1]}'; {advice}")
    return _postgres(named[scheme.end() :], os.environ if environment is None else environment)


def require_url(named: str, where: str) -> None:
    """Refuses an address without a scheme where only a URL is allowed."""
    if not named.startswith(f"{SQLITE}:") and _SCHEME.match(named) is None:
        raise UsageError(f"{where} is not the URL of a store; {_FORMS}")


_OTHER_PLACES = f"set {STORE_VARIABLE}, or name a variable that holds it with ?password_env=NAME"


def require_no_password(named: str, where: str, instead: str = _OTHER_PLACES) -> None:
    """Refuses a password where others can read it; the message does not repeat it."""
    scheme = _SCHEME.match(named)
    place, _, query = named[scheme.end() :].partition("?") if scheme is not None else ("", "", "")
    if ":" in place.rpartition("@")[0] or not dict(parse_qsl(query)).keys().isdisjoint(SECRET_PARAMETERS):
        raise UsageError(f"{where} contains a password; remove it, and {instead}")


def url_of(settings: StoreSettings, where: str) -> str:
    """The address in `[store]`, with the name of the variable of its password; empty if there is none."""
    return _with_password(settings.url, settings, where)


def read_url_of(settings: StoreSettings, where: str) -> str:
    """The address of the copy in `[store]`; its password is in the same variable."""
    return _with_password(settings.read_url, settings, where)


def _with_password(url: str, settings: StoreSettings, where: str) -> str:
    if not url:
        return ""
    require_url(url, where)
    require_no_password(url, where)
    return f"{url}{'&' if '?' in url else '?'}password_env={settings.password_env}" if settings.password_env else url


def store_of_environment(settings: StoreSettings, where: str) -> str:
    """The store for a caller that names none: of a variable, of the settings file, or the folder `.interlock`."""
    if url := os.environ.get(STORE_VARIABLE):
        require_url(url, STORE_VARIABLE)
        return url
    return os.environ.get(DATA_VARIABLE) or url_of(settings, where) or DATA_FOLDER


def _folder(path: str) -> Path:
    path = path.removeprefix("//")
    if not path:
        raise UsageError("sqlite: names no folder; write sqlite:DIR")
    return Path(path)


def _postgres(rest: str, environment: Mapping[str, str]) -> PostgresUrl:
    """Takes the secrets out; the adapter checks the rest."""
    place, _, query = rest.partition("?")
    before, at, after = place.rpartition("@")
    user, _, in_url = before.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    variable, in_query = options.pop("password_env", ""), options.pop("password", "")
    secrets = tuple((name, options.pop(name)) for name in SECRET_PARAMETERS if name in options)
    more = f"?{urlencode(options, quote_via=quote)}" if options else ""
    password = _password(variable, environment) if variable else unquote(in_url) or in_query
    return PostgresUrl(f"{POSTGRES[0]}://{user}{at}{after}{more}", password, secrets, variable)


def _password(variable: str, environment: Mapping[str, str]) -> str:
    require_variable("password_env", variable)
    if not environment.get(variable):
        raise UsageError(f"{variable} is not set; it must hold the password of the store (password_env)")
    return environment[variable]
