"""Every secret that a host knows, and where it has it from: the one place where sources of secrets are listed.

Rule: what is listed here is searched for in all that is stored, shown and logged. A new kind of secret is added here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from interlock.adapters.host_file import HostSettings
from interlock.adapters.mcp_settings import secret_variables
from interlock.adapters.models.known_keys import KEY_CHARS_MIN
from interlock.adapters.models.providers import key_variables
from interlock.adapters.served_folder import SERVER_KEY
from interlock.adapters.webhook_settings import SECRET_PREFIX, IncomingHook, OutgoingHook

# Addresses in the environment that may hold a password: the store's, and those of proxies.
ADDRESS_VARIABLES = ("INTERLOCK_STORE", "DATABASE_URL", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

Environment = Mapping[str, str]


class Secret(NamedTuple):
    """A value, and what to tell a person who asks where it stands; the value is told to nobody."""

    place: str
    value: str


def host_secrets(settings: HostSettings, environment: Environment) -> Iterator[Secret]:
    """Those of providers, MCP servers, webhooks in and out, and of addresses with a password."""
    names = [*key_variables(settings.provider_settings, environment)]
    names += [name for server in settings.mcp.values() for name in secret_variables(server)]
    names += [name for hook in settings.webhooks.values() for name in _variables(hook)]
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


def too_short(settings: HostSettings, environment: Environment) -> list[str]:
    """A sentence for each secret that is not searched for, because it could stand in any text."""
    places = dict.fromkeys(
        each.place for each in host_secrets(settings, environment) if len(each.value) < KEY_CHARS_MIN
    )
    return [
        f"{place} holds fewer than {KEY_CHARS_MIN} characters, and is not searched for in what is stored and shown;"
        " use a longer secret"
        for place in places
    ]


def _variables(hook: OutgoingHook | IncomingHook) -> list[str]:
    if isinstance(hook, OutgoingHook):
        return [hook.secret_env]
    return [name for name in (hook.secret_env, hook.old_secret_env, hook.token_env) if name]


def _forms(name: str, value: str) -> Iterator[Secret]:
    """The secret of a webhook is worth as much without what tells that it is one."""
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
