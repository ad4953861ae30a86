"""`[store]` and `[limits]` of interlock.toml: where runs are kept, and how many may wait."""

from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.config.host_sections import require_variable, section_of
from interlock.errors import UsageError

# Parameters of the URL of a server that hold a secret.
SECRET_PARAMETERS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[store]`: the URL of the store, and the variable that holds its password."""

    url: str = ""
    password_env: str = ""


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[limits]`: runs of one organization that may wait for a worker; None for no limit."""

    queued_runs: int | None = None


def read_store_settings(path: Path, entry: Any) -> StoreSettings:
    settings = section_of(f"{path}: store", _table(path, "store", entry), StoreSettings)
    if settings.password_env:
        require_variable(f"{path}: store.password_env", settings.password_env)
    return settings


def read_limit_settings(path: Path, entry: Any) -> LimitSettings:
    settings = section_of(f"{path}: limits", _table(path, "limits", entry), LimitSettings)
    if settings.queued_runs is not None and settings.queued_runs < 1:
        raise UsageError(f"{path}: limits.queued_runs is {settings.queued_runs}; it must be 1 or more")
    return settings


def _table(path: Path, name: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise UsageError(f"{path}: {name} must be a section; write [{name}]")
    return entry
