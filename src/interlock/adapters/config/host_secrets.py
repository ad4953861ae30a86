"""All secrets that a host knows, with their sources.

Rule: these secrets are redacted in everything that is stored, shown and logged. A new kind of secret is added here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.known_secrets import KEY_CHARS_MIN
from interlock.adapters.config.mcp_settings import secret_variables
from interlock.adapters.config.webhook_settings import SECRET_PREFIX, IncomingHook, OutgoingHook
from interlock.adapters.files.served_folder import SERVER_KEY
from interlock.adapters.models.openai.providers import key_variables

# Addresses in the environment that may contain a password: of the store and of proxies.
ADDRESS_VARIABLES = ("INTERLOCK_STORE", "DATABASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

Environment = Mapping[str, str]


class Secret(NamedTuple):
    """A secret and its source in words; the secret itself is never shown."""

    place: str
    value: str


def host_secrets(settings: HostSettings, environment: Environment) -> Iterator[Secret]:
    """The secrets of providers, MCP servers, webhooks in and out, the store, and of addresses with a password."""
    names = [*key_variables(settings.provider_settings, environment)]
    names += [name for server in settings.mcp.values() for name in secret_variables(server)]
    names += [name for hook in settings.webhooks.values() for name in _variables(hook)]
    names += [settings.store.password_env] if settings.store.password_env else []
    for name in dict.fromkeys(names):
        yield from _forms(name, environment.get(name, "").strip())
    for name in (*ADDRESS_VARIABLES, *(each.lower() for each in ADDRESS_VARIABLES)):
        yield from _password(name, environment.get(name, ""))


def folder_secrets(data: Path) -> Iterator[Secret]:
    """The key of the folder's server, if it has one that this process may read."""
    try:
        yield Secret(str(data / SERVER_KEY), (data / SERVER_KEY).read_text("ascii", "replace").strip())
    except OSError:
        return


def short_secret_warnings(settings: HostSettings, environment: Environment) -> list[str]:
    """A warning for each secret that is too short to redact, because it could be part of any text."""
    places = dict.fromkeys(
        each.place for each in host_secrets(settings, environment) if len(each.value) < KEY_CHARS_MIN
    )
    return [
        f"{place} has fewer than {KEY_CHARS_MIN} characters, and is not redacted in what is stored and shown;"
        " use a longer secret"
        for place in places
    ]


def _variables(hook: OutgoingHook | IncomingHook) -> list[str]:
    if isinstance(hook, OutgoingHook):
        return [hook.secret_env]
    return [name for name in (hook.secret_env, hook.old_secret_env, hook.token_env) if name]


def _forms(name: str, value: str) -> Iterator[Secret]:
    """The forms of a secret: a webhook secret is also valid without its prefix."""
    if value:
        yield Secret(name, value)
    if value.startswith(SECRET_PREFIX) and len(value) > len(SECRET_PREFIX):
        yield Secret(name, value.removeprefix(SECRET_PREFIX))


def _password(name: str, address: str) -> Iterator[Secret]:
    try:
        password = urlsplit(address).password or ""
    except ValueError:
        return
    for value in dict.fromkeys((password, unquote(password))):
        if value:
            yield Secret(f"the password in {name}", value)
