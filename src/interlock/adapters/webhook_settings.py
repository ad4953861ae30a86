"""[webhooks.<id>] of interlock.toml: whom a server tells what happens.

Rule: a file holds no secrets, only the names of the variables that do; a blank one is refused before anything is sent.
"""

import base64
import binascii
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from interlock.adapters.host_sections import require_variable, section_of
from interlock.errors import UsageError

# What can be told, and the type of the event that it is told of.
TOLD = {"run.finished": "run.finished", "question": "input.requested"}

HOOK_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
SECRET_PREFIX = "whsec_"  # noqa: S105 - of every secret, and none itself
# Fewer bytes could be guessed.
SECRET_BYTES_MIN = 24


class OutgoingHook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`on` says what is told; `allow_private` and `allow_http` are for receivers on this machine or network."""

    url: str
    secret_env: str
    on: tuple[str, ...] = tuple(TOLD)
    allow_private: bool = False
    allow_http: bool = False
    timeout_seconds: float = 10


def read_webhook(file: Path, name: str, entry: dict[str, Any]) -> OutgoingHook:
    """What the section says; `UsageError` says what is wrong with it."""
    where = f"{file}: webhooks.{name}"
    if not HOOK_ID.fullmatch(name):
        raise UsageError(f"{where}: an id is up to 64 letters, digits, '_' and '-'")
    if "secret" in entry:
        raise UsageError(f"{where}.secret: a file holds no secrets; write secret_env, the variable's name")
    hook = section_of(where, entry, OutgoingHook)
    require_variable(f"{where}.secret_env", hook.secret_env)
    _require_address(where, hook)
    for what in hook.on:
        if what not in TOLD:
            raise UsageError(f"{where}.on: there is no '{what}'; choose from {', '.join(TOLD)}")
    if not math.isfinite(hook.timeout_seconds) or hook.timeout_seconds <= 0:
        raise UsageError(f"{where}.timeout_seconds is {hook.timeout_seconds!r}; it must be a number above 0")
    return hook


def _require_address(where: str, hook: OutgoingHook) -> None:
    try:
        address = urlsplit(hook.url)
        port = address.port
    except ValueError as error:
        raise UsageError(f"{where}.url: {hook.url!r} is no address: {error}") from error
    if address.scheme not in ("https", "http") or not address.hostname or port == 0:
        raise UsageError(f"{where}.url: {hook.url!r} is no address; write https://host/path")
    if address.scheme == "http" and not hook.allow_http:
        raise UsageError(f"{where}.url: what is told would travel unencrypted; use https, or set allow_http = true")
    if address.username or address.password:
        raise UsageError(f"{where}.url: a file holds no secrets; take the user out of the address")


def secret_of(name: str, variable: str, environ: Mapping[str, str]) -> str:
    """The secret of a webhook, as the variable holds it; `UsageError` if it is blank or cannot be one."""
    text = environ.get(variable, "").strip()
    if not text:
        raise UsageError(f"webhook '{name}': the variable {variable} is blank; set it to the secret of the receiver")
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX) + "==")
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) < SECRET_BYTES_MIN:
        raise UsageError(
            f"webhook '{name}': the variable {variable} holds no secret; it must be {SECRET_PREFIX} and base64 of"
            f" at least {SECRET_BYTES_MIN} bytes"
        )
    return text
