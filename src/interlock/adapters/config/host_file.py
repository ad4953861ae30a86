"""interlock.toml: the host sets up everything that runs code or opens connections; a crew file never does.

Rule: reading it executes nothing. Tools are found in the source of their modules, not by importing them.
"""

import math
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from interlock.adapters.config.approval_settings import NO_APPROVAL_SETTINGS, ApprovalSettings, read_approval_settings
from interlock.adapters.config.host_sections import require_variable, section_of
from interlock.adapters.config.log_settings import LogSettings, read_log_settings
from interlock.adapters.config.mcp_settings import McpServer, read_mcp_server
from interlock.adapters.config.server_settings import ServerSettings, read_server_settings
from interlock.adapters.config.store_settings import (
    LimitSettings,
    StoreSettings,
    WorkerSettings,
    read_limit_settings,
    read_store_settings,
    read_worker_settings,
)
from interlock.adapters.config.webhook_settings import IncomingHook, OutgoingHook, read_webhook
from interlock.adapters.models.openai.constrained_decoding import WAYS
from interlock.adapters.models.openai.endpoint import APIS
from interlock.adapters.models.openai.providers import ProviderSettings
from interlock.adapters.models.openai.server_addresses import fault_in_address
from interlock.adapters.models.typed_output import OUTPUT_WAYS
from interlock.adapters.tools.tool_modules import read_tool_modules
from interlock.crew.definition import PRICE_KEYS, ModelRef
from interlock.crew.host import PROVIDERS, Host, ProviderFacts
from interlock.errors import UsageError, nearest

# Sections of the file. Those without keys here are checked by the part of Interlock that uses them.
_SECTIONS: dict[str, tuple[str, ...] | None] = {
    "approvals": None,
    "durability": None,
    "limits": None,
    "log": None,
    "mcp": None,
    "model": None,
    "providers": None,
    "retention": ("broadcast_days", "days", "tombstone_days"),
    "server": None,
    "store": None,
    "tools": ("modules",),
    "webhooks": None,
    "worker": None,
}

# The names of the store's modes; the store itself is not loaded to read a file.
DURABILITIES = ("full", "normal")


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the file; the sources of its modules are not read yet."""

    file: Path | None = None
    approvals: ApprovalSettings = NO_APPROVAL_SETTINGS
    model: ModelRef | None = None
    modules: tuple[str, ...] = ()
    mcp: dict[str, McpServer] = {}
    providers: tuple[str, ...] = ()
    provider_settings: dict[str, ProviderSettings] = {}
    durability: str = "full"
    limits: LimitSettings = LimitSettings()
    log: LogSettings = LogSettings()
    retention_days: float | None = None
    broadcast_days: float | None = None
    tombstone_days: float | None = None
    server: ServerSettings = ServerSettings()
    store: StoreSettings = StoreSettings()
    webhooks: dict[str, OutgoingHook | IncomingHook] = {}
    worker: WorkerSettings = WorkerSettings()


def read_host_file(path: Path) -> Host:
    """Reads the parts of the file that crews may name; raises `UsageError` with the fault."""
    return host_of(read_settings(path))


def host_of(settings: HostSettings) -> Host:
    if settings.file is None:
        return Host()
    modules = read_tool_modules(settings.file, settings.modules)
    return Host(
        file=str(settings.file),
        model=settings.model,
        tools=tuple(name for module in modules for name in module.tools),
        uncallable_tools=tuple(each for module in modules for each in module.uncallable),
        mcp_servers=tuple(settings.mcp),
        mcp_tools={name: server.tools for name, server in settings.mcp.items() if server.tools is not None},
        providers=settings.providers,
        provider_facts={name: _facts(each) for name, each in settings.provider_settings.items()},
    )


def _facts(provider: ProviderSettings) -> ProviderFacts:
    return ProviderFacts(
        url=provider.url,
        hosts=provider.hosts,
        api=provider.api,
        constrains=provider.constrains,
        constrains_with_tools=provider.constrains_with_tools,
        has_prices=provider.prices is not None,
    )


def read_settings(path: Path) -> HostSettings:
    """Reads the file; raises `UsageError` with the fault."""
    source = _source(path)
    data = _read(path, source)
    return HostSettings(
        file=path,
        approvals=read_approval_settings(path, data.get("approvals", {}), source),
        model=_model(path, data),
        modules=_modules(path, data),
        mcp={name: read_mcp_server(path, name, data["mcp"][name]) for name in _ids(path, data, "mcp")},
        providers=_ids(path, data, "providers"),
        provider_settings=_providers(path, data),
        durability=_durability(path, data),
        limits=read_limit_settings(path, data.get("limits", {})),
        log=read_log_settings(path, data.get("log", {})),
        retention_days=_retention(path, data, "days"),
        broadcast_days=_retention(path, data, "broadcast_days"),
        tombstone_days=_retention(path, data, "tombstone_days"),
        server=read_server_settings(path, data.get("server", {})),
        store=read_store_settings(path, data.get("store", {})),
        webhooks={name: read_webhook(path, name, data["webhooks"][name]) for name in _ids(path, data, "webhooks")},
        worker=read_worker_settings(path, data.get("worker", {})),
    )


def _source(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; check the path after --config") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}; correct it there") from error


def _read(path: Path, source: str) -> dict[str, Any]:
    try:
        data = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}; correct it there") from error
    for name in data:
        if name not in _SECTIONS:
            raise UsageError(f"{path}: unknown key '{name}'; {nearest(name, list(_SECTIONS), 'remove it')}")
    return data


def _section(path: Path, data: dict[str, Any], name: str) -> dict[str, Any]:
    """Reads a section with a fixed set of keys."""
    section, known = data.get(name, {}), _SECTIONS[name] or ()
    if not isinstance(section, dict):
        raise UsageError(f"{path}: {name} must be a section; write [{name}]")
    for key in section:
        if key not in known:
            raise UsageError(f"{path}: unknown key '{name}.{key}'; the keys of [{name}] are {', '.join(known)}")
    return section


def _modules(path: Path, data: dict[str, Any]) -> tuple[str, ...]:
    modules = _section(path, data, "tools").get("modules", [])
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise UsageError(f"{path}: tools.modules must be a list of module names")
    return tuple(modules)


def _ids(path: Path, data: dict[str, Any], section: str) -> tuple[str, ...]:
    entries = data.get(section, {})
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise UsageError(f"{path}: write [{section}.<id>] for every entry of {section}")
    return tuple(entries)


def _providers(path: Path, data: dict[str, Any]) -> dict[str, ProviderSettings]:
    return {name: _provider(path, name, entry) for name, entry in data.get("providers", {}).items()}


def _provider(path: Path, name: str, entry: dict[str, Any]) -> ProviderSettings:
    where = f"{path}: providers.{name}"
    settings = section_of(where, entry, ProviderSettings)
    for key in ProviderSettings.__struct_fields__:
        _require_number(f"{where}.{key}", getattr(settings, key), may_be_zero=key in PRICE_KEYS)
    if settings.outputs not in ("", *OUTPUT_WAYS):
        ways = ", ".join(OUTPUT_WAYS)
        raise UsageError(f"{where}.outputs is {settings.outputs!r}; it must be one of {ways}")
    if settings.api not in ("", *APIS):
        raise UsageError(f"{where}.api is {settings.api!r}; it must be one of {', '.join(APIS)}")
    if settings.constrains not in WAYS:
        ways = ", ".join(WAYS[1:])
        raise UsageError(f"{where}.constrains is {settings.constrains!r}; it must be one of {ways}")
    if settings.idempotency_header:
        _require_header(f"{where}.idempotency_header", settings.idempotency_header)
    if settings.key_env:
        require_variable(f"{where}.key_env", settings.key_env)
    _require_addresses(where, settings)
    return settings


def _require_number(where: str, value: object, *, may_be_zero: bool) -> None:
    """Checks the numbers of a provider: each is a size or a price, and a price may be 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if not math.isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
        least = "0 or more" if may_be_zero else "above 0"
        raise UsageError(f"{where} is {value!r}; it must be a number {least}")


def _require_header(where: str, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", name):
        raise UsageError(f"{where} is {name!r}; it must be the name of a header, such as Idempotency-Key")


def _require_addresses(where: str, settings: ProviderSettings) -> None:
    """Checks the addresses: of the server, the proxy and the hosts, which may have no scheme."""
    hosts = [host if "://" in host else f"https://{host}" for host in settings.hosts]
    for key, url in (("url", settings.url), ("proxy", settings.proxy), *(("hosts", host) for host in hosts)):
        if url and (fault := fault_in_address(url)):
            raise UsageError(f"{where}.{key}: {fault}")


def _model(path: Path, data: dict[str, Any]) -> ModelRef | None:
    """The model of crews without one; the path of a script is relative to this file."""
    named = data.get("model")
    if named is None:
        return None
    provider, colon, model = (part.strip() for part in named.partition(":")) if isinstance(named, str) else ("", "", "")
    if not provider or not colon or not model:
        raise UsageError(f"{path}: model is {named!r}; write a provider and a name, such as 'openai:gpt-4o-mini'")
    known = (*PROVIDERS, *_ids(path, data, "providers"))
    if provider not in known:
        advice = nearest(provider, known, f"add [providers.{provider}] to {path}")
        raise UsageError(f"{path}: model is {named!r}, but there is no provider '{provider}'; {advice}")
    if provider == "scripted":
        model = str((path.parent / model).resolve())
    return ModelRef(provider=provider, model=model)


def _durability(path: Path, data: dict[str, Any]) -> str:
    durability = data.get("durability", DURABILITIES[0])
    if durability not in DURABILITIES:
        raise UsageError(f"{path}: durability is {durability!r}; it must be one of {', '.join(DURABILITIES)}")
    return str(durability)


def _retention(path: Path, data: dict[str, Any], key: str) -> float | None:
    days = _section(path, data, "retention").get(key)
    if days is None:
        return None
    if isinstance(days, bool) or not isinstance(days, int | float) or not math.isfinite(days) or days < 0:
        raise UsageError(f"{path}: retention.{key} is {days!r}; it must be a number of days, 0 or more")
    return float(days)
