"""[webhooks.<id>] of interlock.toml: outgoing and incoming webhooks.

Rule: a file contains no secrets, only names of variables; a blank one is refused before anything is sent.
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

from interlock.adapters.config.host_sections import require_variable, section_of
from interlock.broadcast.pattern import pattern_fault
from interlock.broadcast.record import type_fault
from interlock.errors import UsageError

# The events that can be sent, by name, with the event type of each.
OUTGOING_EVENTS = {"run.finished": "run.finished", "question": "input.requested", "external": "external"}
# The events of a webhook without `on`: external signals of agents are sent only if asked for.
DEFAULT_OUTGOING_EVENTS = ("run.finished", "question")

# How incoming webhooks are signed: as Standard Webhooks, as one of these services does, or by a header that is named.
STANDARD = "standard"
HMAC = "hmac"
SCHEME_NAMES = (STANDARD, "github", "gitlab", "stripe", HMAC)
_HEADER = re.compile(r"[a-z0-9-]{1,100}")
# Services other than Standard Webhooks use a text as secret; a shorter one could be guessed.
SECRET_CHARS_MIN = 16

# Before a pattern, in `on`: broadcasts whose type matches.
BROADCAST = "broadcast:"

HOOK_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLAIN_ADDRESS = re.compile(r"[!-~]{1,2000}")
SECRET_PREFIX = "whsec_"  # noqa: S105 - of every secret, and none itself
# Fewer bytes could be guessed.
SECRET_BYTES_MIN = 24


class OutgoingHook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An outgoing webhook. `on` lists its events; `allow_private` and `allow_http` are for local receivers."""

    url: str
    secret_env: str
    on: tuple[str, ...] = DEFAULT_OUTGOING_EVENTS
    allow_private: bool = False
    allow_http: bool = False
    timeout_seconds: float = 10


class IncomingHook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An incoming webhook and the types that it may announce. While a secret is rotated there are two.

    `token_env` is for senders that cannot sign. `scheme` is how the sender signs; `signature_header` belongs to `hmac`.
    `type` is a fixed type to announce, `type_header` names the header with the type.
    """

    types: tuple[str, ...]
    scheme: str = STANDARD
    signature_header: str = ""
    type: str = ""
    type_header: str = ""
    secret_env: str = ""
    old_secret_env: str = ""
    token_env: str = ""


def read_webhook(file: Path, name: str, entry: dict[str, Any]) -> "OutgoingHook | IncomingHook":
    """Reads the section: outgoing with an address, incoming without; raises `UsageError` with the fault."""
    where = f"{file}: webhooks.{name}"
    if not HOOK_ID.fullmatch(name):
        raise UsageError(f"{where}: an id is up to 64 letters, digits, '_' and '-'")
    if "secret" in entry:
        raise UsageError(f"{where}.secret: a file contains no secrets; write secret_env, the variable's name")
    return _read_outgoing(where, entry) if "url" in entry else _read_incoming(where, entry)


def _read_incoming(where: str, entry: dict[str, Any]) -> IncomingHook:
    hook = section_of(where, entry, IncomingHook)
    if bool(hook.secret_env) == bool(hook.token_env):
        raise UsageError(f"{where}: write url to send, or secret_env (or token_env) and types to receive webhooks")
    for key in ("secret_env", "old_secret_env", "token_env"):
        if getattr(hook, key):
            require_variable(f"{where}.{key}", getattr(hook, key))
    if hook.old_secret_env and not hook.secret_env:
        raise UsageError(f"{where}.old_secret_env goes with secret_env")
    _require_scheme(where, hook)
    if not hook.types:
        raise UsageError(f"{where}.types is empty; list the patterns that it may announce")
    for pattern in hook.types:
        if fault := pattern_fault(pattern):
            raise UsageError(f"{where}.types: {pattern!r} {fault}")
    return hook


def _require_scheme(where: str, hook: IncomingHook) -> None:
    if hook.scheme not in SCHEME_NAMES:
        raise UsageError(f"{where}.scheme is {hook.scheme!r}; it must be one of {', '.join(SCHEME_NAMES)}")
    if hook.scheme != STANDARD and hook.token_env:
        raise UsageError(f"{where}: scheme '{hook.scheme}' goes with secret_env, not with token_env")
    if (hook.scheme == HMAC) != bool(hook.signature_header):
        raise UsageError(f'{where}.signature_header goes with scheme = "{HMAC}": the header with the signature')
    if hook.type and hook.type_header:
        raise UsageError(f"{where}: give type or type_header, not both")
    if hook.type_header and hook.scheme != HMAC:
        raise UsageError(f'{where}.type_header goes with scheme = "{HMAC}"')
    if hook.type and (fault := type_fault(hook.type)):
        raise UsageError(f"{where}.type: {hook.type!r} {fault}")
    for key in ("signature_header", "type_header"):
        name = getattr(hook, key)
        if name and not _HEADER.fullmatch(name.lower()):
            raise UsageError(f"{where}.{key}: {name!r} is not the name of a header")


def _read_outgoing(where: str, entry: dict[str, Any]) -> OutgoingHook:
    hook = section_of(where, entry, OutgoingHook)
    require_variable(f"{where}.secret_env", hook.secret_env)
    _require_address(where, hook)
    for what in hook.on:
        pattern = what.removeprefix(BROADCAST) if what.startswith(BROADCAST) else None
        if pattern is not None and (fault := pattern_fault(pattern)):
            raise UsageError(f"{where}.on: the pattern {pattern!r} {fault}")
        if pattern is None and what not in OUTGOING_EVENTS:
            raise UsageError(
                f"{where}.on: there is no '{what}'; choose from {', '.join(OUTGOING_EVENTS)}, {BROADCAST}PATTERN"
            )
    if not math.isfinite(hook.timeout_seconds) or hook.timeout_seconds <= 0:
        raise UsageError(f"{where}.timeout_seconds is {hook.timeout_seconds!r}; it must be a number above 0")
    return hook


def _require_address(where: str, hook: OutgoingHook) -> None:
    try:
        address = urlsplit(hook.url)
        port = address.port
    except ValueError as error:
        raise UsageError(f"{where}.url: {hook.url!r} is not an address: {error}") from error
    if not _PLAIN_ADDRESS.fullmatch(hook.url):
        raise UsageError(
            f"{where}.url: it must be at most 2,000 ASCII characters; write others as xn--… in a name, as %XX in a path"
        )
    if address.scheme not in ("https", "http") or port == 0 or not _is_host(address.hostname or ""):
        raise UsageError(f"{where}.url: {hook.url!r} is not an address; write https://host/path")
    if address.scheme == "http" and not hook.allow_http:
        raise UsageError(f"{where}.url: the data would be sent unencrypted; use https, or set allow_http = true")
    if "@" in address.netloc:
        raise UsageError(f"{where}.url: a file contains no secrets; remove the user from the address")


def _is_host(name: str) -> bool:
    """True if it can be resolved: no part of it is empty or too long."""
    try:
        return name.encode("idna") != b""
    except UnicodeError:
        return False


def incoming_secrets(name: str, hook: IncomingHook, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets of an incoming webhook, the newer first; none if they are blank, and then it is refused."""
    variables = [each for each in (hook.secret_env, hook.old_secret_env) if environ.get(each, "").strip()]
    read = secret_of if hook.scheme == STANDARD else _text_secret_of
    return tuple(read(name, each, environ) for each in variables)


def _text_secret_of(name: str, variable: str, environ: Mapping[str, str]) -> str:
    secret = environ[variable].strip()
    if len(secret) < SECRET_CHARS_MIN:
        raise UsageError(
            f"webhook '{name}': the secret in {variable} is too short; it needs {SECRET_CHARS_MIN} characters or more"
        )
    return secret


def secret_of(name: str, variable: str, environ: Mapping[str, str]) -> str:
    """The secret of a webhook, from its variable; raises `UsageError` if it is blank or invalid."""
    text = environ.get(variable, "").strip()
    if not text:
        raise UsageError(f"webhook '{name}': the variable {variable} is blank; set it to the secret of the receiver")
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX) + "==")
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) < SECRET_BYTES_MIN:
        raise UsageError(
            f"webhook '{name}': the variable {variable} has no valid secret; it must be {SECRET_PREFIX} and base64 of"
            f" at least {SECRET_BYTES_MIN} bytes"
        )
    return text
