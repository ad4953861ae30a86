"""[server] of interlock.toml: keys, addresses and limits of the server.

Rule 1: a file contains no keys, only their SHA-256; a blank one is refused and gives no access.
Rule 2: every number has a default next to its reason, and must be above 0.
"""

import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from interlock.adapters.config.host_sections import section_of
from interlock.errors import UsageError

SCOPES = ("read", "run", "answer", "approve", "metrics", "admin")

# A prefix cannot begin with one of these paths of the server.
OWN_PATHS = (["v1"], ["static"], ["healthz"], ["readyz"], ["metrics"], ["openapi.json"])

_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ServerKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key besides that of the data folder, known only by its hash; `crews` limits it to runs of these."""

    sha256: str
    scopes: tuple[str, ...]
    crews: tuple[str, ...] | None = None


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a server. `hosts` are its names besides those of the loopback."""

    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    keys: dict[str, ServerKey] = {}
    # The public address of the server, if it is behind a proxy.
    public_url: str = ""
    # True if /metrics answers without a key, for any name of the server.
    metrics_open: bool = False
    # By key. A page that polls and a program in a loop stay well below this.
    requests_per_second: float = 100
    # By address. A person who mistypes a key stays below this; a key cannot be guessed at any rate.
    failures_per_minute: float = 20
    # Open event streams, in all and by key. A browser opens one for everything.
    streams_max: int = 1_000
    streams_per_key_max: int = 20
    # Open connections, including streams; the limit of the system may be lower, and then applies.
    connections_max: int = 2_000
    # Time limits for a client to send its headers, also of its next request, and its body.
    header_timeout_seconds: float = 10
    body_timeout_seconds: float = 30
    # How long the server waits for calls in progress when it shuts down.
    drain_timeout_seconds: float = 30
    # The buffer of a stream with a slow reader, and the time limit to read 64 kB or the whole buffer.
    stream_buffer_kb: float = 1024
    stream_send_timeout_seconds: float = 30
    # Total size of answers to one key that are not read yet; a page of a list is a megabyte at most.
    unread_mb_per_key: float = 64
    # How long a browser stays signed in.
    session_hours: float = 24


def read_server_settings(file: Path, entry: Any) -> ServerSettings:
    """Reads the section; raises `UsageError` with the fault."""
    if not isinstance(entry, dict):
        raise UsageError(f"{file}: server must be a section; write [server]")
    settings = section_of(f"{file}: server", entry, ServerSettings)
    for name in ServerSettings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, int | float) and not isinstance(value, bool) and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{file}: server.{name} is {value!r}; it must be a number above 0")
    if settings.public_url:
        require_public_url(f"{file}: server.public_url", settings.public_url)
    for origin in settings.origins:
        _require_origin(f"{file}: server.origins", origin)
    for host in settings.hosts:
        if not host or re.search(r"[\s/:@*]", host):
            raise UsageError(f"{file}: server.hosts: {host!r} is not a host name; write it without scheme and port")
    for name, key in settings.keys.items():
        _require_key(f"{file}: server.keys.{name}", name, key)
    return settings


def require_public_url(where: str, url: str) -> None:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise UsageError(f"{where}: {url!r} is not an address; write https://host or https://host/prefix")
    if parts.query or parts.fragment or not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", path) or "/." in path:
        raise UsageError(f"{where}: {url!r} has more than a plain path; write https://host or https://host/prefix")
    if path.split("/")[1:2] in OWN_PATHS:
        raise UsageError(f"{where}: the prefix {path!r} begins like a path of the server itself; choose another")


def _require_origin(where: str, origin: str) -> None:
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.hostname or origin != f"{parts.scheme}://{parts.netloc}":
        raise UsageError(f"{where}: {origin!r} is not an origin; write https://host or https://host:port, and no more")


def _require_key(where: str, name: str, key: ServerKey) -> None:
    if not _KEY_ID.fullmatch(name):
        raise UsageError(f"{where}: an id is up to 64 letters, digits, '_' and '-'")
    if not _SHA256.fullmatch(key.sha256):
        raise UsageError(f"{where}.sha256 is not a SHA-256 in hex; 'interlock key' creates a key and prints it")
    if not key.scopes:
        raise UsageError(f"{where}.scopes is empty; choose from {', '.join(SCOPES)}, or remove the key")
    if key.crews is not None and not key.crews:
        raise UsageError(f"{where}.crews is empty; name the crews of this key, or leave 'crews' out for all of them")
    for scope in key.scopes:
        if scope not in SCOPES:
            raise UsageError(f"{where}.scopes: there is no scope {scope!r}; choose from {', '.join(SCOPES)}")
