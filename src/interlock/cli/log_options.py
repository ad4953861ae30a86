"""`--log-level`, `--verbose`, `--quiet` and `--log-format`: the log of a command on standard error."""

import functools
from collections.abc import Callable
from typing import Any

import click

from interlock.adapters.config.log_settings import FORMATS, LEVELS
from interlock.adapters.log.log_setup import LogChoice
from interlock.errors import UsageError


def log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command; it gets them as one argument, `log`."""

    @click.option("--log-level", type=click.Choice(LEVELS), help="Lowest level shown on standard error.")
    @click.option("--verbose", is_flag=True, help="Same as --log-level info.")
    @click.option("--quiet", is_flag=True, help="Same as --log-level error.")
    @click.option("--log-format", type=click.Choice(FORMATS), help="Format of the log on standard error.")
    @functools.wraps(command)
    def with_log(
        *args: Any, log_level: str | None, verbose: bool, quiet: bool, log_format: str | None, **more: Any
    ) -> None:
        command(*args, log=LogChoice(_level(log_level, verbose, quiet), log_format or ""), **more)

    return with_log


def _level(level: str | None, verbose: bool, quiet: bool) -> str:
    if sum((level is not None, verbose, quiet)) > 1:
        raise UsageError("--log-level, --verbose and --quiet set the same thing; give one of them")
    if verbose or quiet:
        return "info" if verbose else "error"
    return level or ""
