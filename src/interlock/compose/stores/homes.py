"""Finds the home of a store by its address."""

import os
from importlib import import_module

from interlock.adapters.config.extras import missing_extra_message
from interlock.compose.stores.sqlite_folder import SqliteFolder
from interlock.compose.stores.store_home import StoreHome
from interlock.compose.stores.store_url import FolderAddress, PostgresUrl, parse_store
from interlock.errors import UsageError

# The path of a data folder, or the URL of a store.
StoreName = str | os.PathLike[str]


def home_of(named: StoreName) -> StoreHome:
    """The home of a store; nothing is opened or created. `UsageError` if the address cannot be used here."""
    address = parse_store(named)
    if isinstance(address, FolderAddress):
        return SqliteFolder(address.folder)
    return _postgres_home(address)


def _postgres_home(address: PostgresUrl) -> StoreHome:
    """The driver is loaded only for such a store."""
    try:
        module = import_module("interlock.compose.stores.postgres_server")
    except ModuleNotFoundError as error:
        raise UsageError(missing_extra_message("a PostgreSQL store", "postgres", error.name or "")) from error
    home: StoreHome = module.PostgresServer(address)
    return home
