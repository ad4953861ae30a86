"""`[store]`, `[limits]` and `[worker]` of interlock.toml: where runs are kept, how many may wait, who gets how many."""

from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.config.host_sections import require_variable, section_of
from interlock.errors import UsageError

# More than the runs of a worker would tell nothing more.
WEIGHT_MAX = 1_000
# Parameters of the URL of a server that hold a secret.
SECRET_PARAMETERS = ("password", "sslpassword", "scram_client_key", "scram_server_key", "oauth_client_secret")


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[store]`: the URL of the store, that of a copy to read, and the variable that holds their password."""

    url: str = ""
    read_url: str = ""
    password_env: str = ""


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[limits]`: runs of one organization that may wait for a worker; None for no limit."""

    queued_runs: int | None = None


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[worker]`: the weights of organizations in what workers drive; 1 for those that are not named."""

    weights: dict[str, int] = {}


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


def read_worker_settings(path: Path, entry: Any) -> WorkerSettings:
    settings = section_of(f"{path}: worker", _table(path, "worker", entry), WorkerSettings)
    for organization, weight in settings.weights.items():
        if not 1 <= weight <= WEIGHT_MAX:
            raise UsageError(
                f"{path}: worker.weights.{organization} is {weight}; it must be a whole number from 1 to {WEIGHT_MAX}"
            )
    return settings


def _table(path: Path, name: str, entry: Any) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise UsageError(f"{path}: {name} must be a section; write [{name}]")
    return entry
