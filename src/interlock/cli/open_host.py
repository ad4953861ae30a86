"""Open an `Interlock` for a command."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.host_secrets import host_secrets
from interlock.adapters.log.run_log import RunLog
from interlock.cli.crew_argument import NO_CODE, CrewCode
from interlock.cli.options import script_of
from interlock.compose.crews import host_settings
from interlock.compose.interlock import Interlock
from interlock.runtime.claiming.work import DEFAULT_WORK, WorkSettings
from interlock.signals.registry import SignalRegistry

T = TypeVar("T")


def interlock_with_log(
    data: str,
    host: HostSettings,
    script: str | None,
    model: str | None = None,
    *,
    recover: bool = False,
    code: CrewCode = NO_CODE,
    work: WorkSettings = DEFAULT_WORK,
) -> Interlock:
    """An `Interlock` that logs its runs; --script or --model, if given, reply for every agent.

    `code` came with crews in Python.
    """
    answers = script_of(script, model)

    def registry_of(run: str) -> SignalRegistry | None:
        return box.registry_of_run(run)

    box = Interlock(
        data,
        host=host,
        script=answers,
        model=model if answers is None else None,
        recover=recover,
        work=work,
        tools=code.tools,
        observers=[RunLog(registry_of)],
    )
    box.resources.give_types((), code.output_types)
    return box


def with_interlock(
    data: str,
    ask: Callable[[Interlock], Awaitable[T]],
    config: str | None = None,
    *,
    script: str | None = None,
    model: str | None = None,
) -> T:
    """Open the data folder for one action. Of the settings file only durability and secrets are used."""
    settings, answers = host_settings(config), script_of(script, model)
    named = model if answers is None else None

    async def open_and_ask() -> T:
        async with Interlock(data, durability=settings.durability, script=answers, model=named) as box:
            box.redactor().add(*(secret.value for secret in host_secrets(settings, os.environ)))
            return await ask(box)

    return asyncio.run(open_and_ask())
