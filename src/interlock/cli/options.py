"""Options and arguments that several commands share."""

import functools
import sys
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from interlock.compose.crews import host_settings
from interlock.compose.stores.store_url import (
    DATA_FOLDER,
    DATA_VARIABLE,
    READ_STORE_VARIABLE,
    STORE_VARIABLE,
    ReadStore,
    read_url_of,
    require_no_password,
    require_url,
    url_of,
)
from interlock.errors import UsageError


def data_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --data and --store to a command; it gets the one that counts as `data`, a folder or the URL of a store."""

    @click.option(
        "--data",
        metavar="DIR",
        envvar=DATA_VARIABLE,
        default=DATA_FOLDER,
        show_default=True,
        help="Data folder with the runs.",
    )
    @click.option(
        "--store",
        metavar="URL",
        envvar=STORE_VARIABLE,
        help="Store with the runs, in place of --data: sqlite:DIR or postgres://user@host:5432/db.",
    )
    @functools.wraps(command)
    def with_store(*args: Any, data: str, store: str | None, **more: Any) -> Any:
        return command(*args, data=_store_to_use(data, store, more.get("config")), **more)

    return with_store


def read_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --data, --store and --read-store to a command that only reads; `data` may be a `ReadStore`."""

    @click.option(
        "--read-store",
        metavar="URL",
        envvar=READ_STORE_VARIABLE,
        help="Copy of the store to read from, such as a standby of its PostgreSQL server.",
    )
    @functools.wraps(command)
    def with_copy(*args: Any, data: str, read_store: str | None, **more: Any) -> Any:
        return command(*args, data=_store_to_read(data, read_store), **more)

    return data_option(with_copy)


def _store_to_read(data: str, copy: str | None) -> str | ReadStore:
    """A copy counts for the store that was found in the same place, or in one that counts less."""
    sources = click.get_current_context().get_parameter_source
    is_named = ParameterSource.COMMANDLINE in (sources("data"), sources("store"))
    if sources("read_store") is ParameterSource.COMMANDLINE and copy is not None:
        if is_named:
            raise UsageError("--read-store names what to read; leave --data and --store out")
        require_url(copy, "--read-store")
        require_no_password(copy, "--read-store")
        return ReadStore(copy)
    if is_named:
        return data
    if copy is not None:
        require_url(copy, READ_STORE_VARIABLE)
        return ReadStore(copy, data)
    if sources("data") is ParameterSource.DEFAULT and sources("store") is ParameterSource.DEFAULT:
        settings = host_settings(None)
        if url := read_url_of(settings.store, f"{settings.file}: store.read_url"):
            return ReadStore(url, data)
    return data


def _store_to_use(data: str, store: str | None, config: str | None) -> str:
    """An option counts before a variable, a variable before the settings file, and that before the default."""
    sources = click.get_current_context().get_parameter_source
    of_data, of_store = sources("data"), sources("store")
    if of_data is of_store is ParameterSource.COMMANDLINE:
        raise UsageError("--data and --store both name the store; give one of them")
    if store is not None and of_data is not ParameterSource.COMMANDLINE:
        require_url(store, "--store" if of_store is ParameterSource.COMMANDLINE else STORE_VARIABLE)
        if of_store is ParameterSource.COMMANDLINE:
            require_no_password(store, "--store")
        return store
    if of_data is not ParameterSource.DEFAULT:
        require_no_password(data, "--data")
        return data
    settings = host_settings(config)
    return url_of(settings.store, f"{settings.file}: store.url") or data


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
plain_option = click.option("--plain", is_flag=True, help="Human-readable output even when not on a terminal.")
script_option = click.option("--script", metavar="FILE", help="File of scripted replies, used instead of models.")


model_option = click.option(
    "--model", metavar="M", help="Model for every agent: the one that the run was begun with, or another one."
)


def script_of(script: str | None, model: str | None) -> str | None:
    """The script given by --script or --model scripted:FILE; None if models answer."""
    if model is None:
        return script
    if script is not None:
        raise UsageError("--script and --model both choose the model; give one of them")
    provider, _, file = model.partition(":")
    return file if provider == "scripted" and file else None


def text_or_stdin(text: str) -> str:
    """The text itself, or standard input if it is '-'."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise UsageError("standard input is closed; give the text as an argument")
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input is not UTF-8: {error}") from error
