"""Who serves models in the manner of OpenAI: addresses, keys, and where a key may go.

Rule 1: keys come from the environment and from nowhere else. No file holds one, and no message shows one.
Rule 2: a key goes to its provider's own address, or to a host that interlock.toml lists; whatever a crew file says. To
another machine it goes by https, unless the file lists the address with its http://.
Rule 3: an address is plain: scheme, host, port, path. What two parsers could read in two ways is refused.
"""

import re
from collections.abc import Mapping

import msgspec

from interlock.adapters.models.constraining import GRAMMAR, GUIDED_GRAMMAR, SCHEMA
from interlock.adapters.models.endpoint import CallLimits, Endpoint, Server
from interlock.adapters.models.other_providers import OTHER_PROVIDERS, SECRETS, unset_key
from interlock.crew.definition import ModelRef
from interlock.crew.host import PROVIDERS
from interlock.errors import ModelRefused

_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?",
    re.IGNORECASE | re.ASCII,
)
_USERINFO = re.compile(r"//[^/]*@")
_LABEL_CHARS_MAX = 63
_PORTS = {"http": 80, "https": 443}
_THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")

OLLAMA_PORT = 11434


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[providers.<id>] of interlock.toml."""

    url: str = ""
    key_env: str = ""
    hosts: tuple[str, ...] = ()
    proxy: str = ""
    connect_timeout_seconds: float = CallLimits().connect_seconds
    first_byte_timeout_seconds: float = CallLimits().first_byte_seconds
    idle_timeout_seconds: float = CallLimits().idle_seconds
    total_timeout_seconds: float = CallLimits().total_seconds
    max_reply_kb: int = CallLimits().reply_bytes_max // 1000
    constrains: str = ""
    constrained_sentences: int | None = None

    @property
    def limits(self) -> CallLimits:
        return CallLimits(
            connect_seconds=self.connect_timeout_seconds,
            first_byte_seconds=self.first_byte_timeout_seconds,
            idle_seconds=self.idle_timeout_seconds,
            total_seconds=self.total_timeout_seconds,
            reply_bytes_max=self.max_reply_kb * 1000,
        )


Providers = Mapping[str, ProviderSettings]
Environment = Mapping[str, str]

BUILT_IN = {
    "llama.cpp": ProviderSettings(url="http://127.0.0.1:8080/v1", constrains=GRAMMAR),
    "ollama": ProviderSettings(url=f"http://127.0.0.1:{OLLAMA_PORT}/v1", constrains=SCHEMA),
    "openai": ProviderSettings(url="https://api.openai.com/v1", key_env="OPENAI_API_KEY", constrains=SCHEMA),
    "openai-compatible": ProviderSettings(),
    "openrouter": ProviderSettings(url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY", constrains=SCHEMA),
    "vllm": ProviderSettings(url="http://127.0.0.1:8000/v1", constrains=GUIDED_GRAMMAR),
}


class Address(msgspec.Struct, frozen=True):
    """An address, taken apart once."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}" + (f":{self.port}" if self.port != _PORTS[self.scheme] else "")

    @property
    def is_private_to_send(self) -> bool:
        """Whether nobody on the way can read what is sent."""
        return self.scheme == "https" or self.host in _THIS_MACHINE


def is_served(provider: str, settings: Providers) -> bool:
    """Whether this client is the one to ask; other providers have clients of their own."""
    if provider in BUILT_IN:
        return True
    return provider in settings and (bool(settings[provider].url) or provider not in PROVIDERS)


def endpoint_of(model: ModelRef, settings: Providers, environment: Environment) -> Endpoint:
    """Where to ask for a model; `ModelRefused` before any connection, if that is not possible or not allowed."""
    provider = provider_of(model.provider, settings, environment)
    written = model.provider_url or provider.url
    if not written:
        raise ModelRefused(
            f"nobody says where '{model.name}' is served; give its provider_url, "
            f"or url under [providers.{model.provider}] in interlock.toml"
        )
    address = address_of(written, model.name)
    if provider.proxy:
        address_of(provider.proxy, f"the proxy of {model.provider}")
    key = _key(model, provider, address, environment)
    return Endpoint(
        server=Server(f"{model.name} at {address.host}", provider.key_env),
        url=address.url,
        key=key,
        proxy=provider.proxy,
        limits=provider.limits,
        constrains=provider.constrains,
        sentences=provider.constrained_sentences or 0,
    )


def provider_of(name: str, settings: Providers, environment: Environment) -> ProviderSettings:
    """What is known of a provider, the host's file first."""
    built_in, own = BUILT_IN.get(name, ProviderSettings()), settings.get(name, ProviderSettings())
    url = own.url or (_ollama_url(environment) if name == "ollama" else "") or built_in.url
    constrains = own.constrains or built_in.constrains
    return msgspec.structs.replace(own, url=url, key_env=own.key_env or built_in.key_env, constrains=constrains)


def address_of(url: str, model: str) -> Address:
    address = _read(url)
    if address is None:
        raise ModelRefused(f"the address of '{model}': {fault_in_address(url)}")
    return address


def fault_in_address(url: str) -> str:
    """What is wrong with an address, without the names, passwords and keys that it may hold; nothing if nothing is."""
    if _read(url) is not None:
        return ""
    shown = _USERINFO.sub("//…@", url.partition("?")[0])
    hint = ", without a name, a password or a query; keys come from the environment" if "@" in url or "?" in url else ""
    return f"{shown!r} is no address; write it as https://HOST/v1{hint}"


def _read(url: str) -> Address | None:
    found = _URL.fullmatch(url)
    if found is None or any(len(label) > _LABEL_CHARS_MAX for label in found["host"].split(".")):
        return None
    scheme = found["scheme"].lower()
    port = int(found["port"] or _PORTS[scheme])
    return Address(scheme, found["host"].lower(), port, found["path"]) if port <= 65535 else None


def _key(model: ModelRef, provider: ProviderSettings, address: Address, environment: Environment) -> str:
    if not provider.key_env:
        return ""
    if not _may_have_the_key(provider, address):
        raise ModelRefused(
            f"'{model.name}' would send {provider.key_env} to {address.origin}, which is not its provider's address; "
            f"list it as one of the hosts under [providers.{model.provider}] in interlock.toml if that is wanted"
        )
    key = environment.get(provider.key_env, "").strip()
    if not key:
        raise ModelRefused(f"'{model.name}' needs a key; set the environment variable {provider.key_env}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelRefused(f"the environment variable {provider.key_env} holds no key: it has spaces or odd letters")
    return key


def _may_have_the_key(provider: ProviderSettings, address: Address) -> bool:
    if provider.url and address_of(provider.url, "this provider").origin == address.origin:
        return True
    names = (address.host, f"{address.host}:{address.port}")
    for entry in provider.hosts:
        if "://" in entry:
            if address_of(entry, "a listed host").origin == address.origin:
                return True
        elif entry.lower() in names and address.is_private_to_send:
            return True
    return False


def unset_keys(settings: Providers, environment: Environment) -> dict[str, str]:
    """By provider: the variable for its key, where that is not set."""
    found = {}
    for name in dict.fromkeys((*BUILT_IN, *OTHER_PROVIDERS, *settings)):
        if is_served(name, settings):
            variable = provider_of(name, settings, environment).key_env
            if variable and not environment.get(variable, "").strip():
                found[name] = variable
        elif variable := unset_key(name, environment):
            found[name] = variable
    return found


def key_variables(settings: Providers, environment: Environment) -> list[str]:
    """Every variable in the environment with a key that somebody could be sent, or could say."""
    named = {*SECRETS, *(provider.key_env for provider in (*BUILT_IN.values(), *settings.values()))}
    return [name for name in environment if name in named or name.endswith("_API_KEY")]


def _ollama_url(environment: Environment) -> str:
    """OLLAMA_HOST as Ollama itself reads it: an address, a host, a port, or both."""
    text = environment.get("OLLAMA_HOST", "").strip().rstrip("/")
    if not text:
        return ""
    scheme, _, rest = text.rpartition("://")
    host, _, port = rest.rpartition(":") if re.search(r":\d+$", rest) else (rest, "", "")
    if host in ("", "0.0.0.0"):  # noqa: S104 - where a server listens, not where it is asked
        host = "127.0.0.1"
    url = f"{scheme or 'http'}://{host}:{port or OLLAMA_PORT}/v1"
    if fault := fault_in_address(url):
        raise ModelRefused(f"the environment variable OLLAMA_HOST: {fault}")
    return url
