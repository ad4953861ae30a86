"""Providers with an OpenAI-compatible API: addresses, keys, and where a key may be sent.

Rule 1: keys come from the environment only. No file contains one, and no message shows one.
Rule 2: a key is sent only to its provider's own address, or to a host that interlock.toml lists. To another machine it
is sent by https, unless the file lists the address with http://.
Rule 3: a crew file cannot open connections: its `provider_url` is used only if the provider has that address anyway,
or interlock.toml lists it.
"""

import re
from collections.abc import Mapping

import msgspec

from interlock.adapters.models.openai.constrained_decoding import GRAMMAR, GUIDED_GRAMMAR, SCHEMA
from interlock.adapters.models.openai.endpoint import CHAT, RESPONSES, CallLimits, Endpoint, Server
from interlock.adapters.models.openai.openai_models import openai_model_facts
from interlock.adapters.models.openai.server_addresses import Address, address_of, fault_in_address, is_listed
from interlock.adapters.models.pydantic_ai.model_facts import facts_of
from interlock.adapters.models.pydantic_ai.other_providers import OTHER_PROVIDERS, SECRETS, missing_key_variable
from interlock.adapters.models.typed_output import JSON_OBJECT, TOOL
from interlock.adapters.models.typed_output import SCHEMA as BY_SCHEMA
from interlock.crew.definition import ModelRef, Prices, prices_of
from interlock.crew.host import PROVIDERS
from interlock.errors import ModelRefused

OLLAMA_PORT = 11434

# Servers that turn the schema of a value into a grammar, bounds included.
GRAMMAR_PROVIDERS = ("llama.cpp", "ollama", "vllm")


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
    api: str = ""
    constrains: str = ""
    constrains_with_tools: bool = False
    outputs: str = ""
    constrained_sentences: int | None = None
    idempotency_header: str = ""
    input_token_price_per_million: float | None = None
    output_token_price_per_million: float | None = None
    cache_read_token_price_per_million: float | None = None
    cache_write_token_price_per_million: float | None = None

    @property
    def prices(self) -> Prices | None:
        return prices_of(
            self.input_token_price_per_million,
            self.output_token_price_per_million,
            self.cache_read_token_price_per_million,
            self.cache_write_token_price_per_million,
        )

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
    "deepseek": ProviderSettings(url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY", outputs=JSON_OBJECT),
    "fireworks": ProviderSettings(
        url="https://api.fireworks.ai/inference/v1", key_env="FIREWORKS_API_KEY", constrains=SCHEMA, outputs=BY_SCHEMA
    ),
    "llama.cpp": ProviderSettings(url="http://127.0.0.1:8080/v1", constrains=GRAMMAR, outputs=BY_SCHEMA),
    "ollama": ProviderSettings(url=f"http://127.0.0.1:{OLLAMA_PORT}/v1", constrains=SCHEMA, outputs=BY_SCHEMA),
    "openai": ProviderSettings(
        url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        constrains=SCHEMA,
        constrains_with_tools=True,
        outputs=BY_SCHEMA,
        idempotency_header="Idempotency-Key",
    ),
    "openai-compatible": ProviderSettings(),
    "openrouter": ProviderSettings(
        url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY", constrains=SCHEMA, outputs=BY_SCHEMA
    ),
    "together": ProviderSettings(url="https://api.together.xyz/v1", key_env="TOGETHER_API_KEY", outputs=TOOL),
    "vllm": ProviderSettings(url="http://127.0.0.1:8000/v1", constrains=GUIDED_GRAMMAR, outputs=BY_SCHEMA),
}


def is_served(provider: str, settings: Providers) -> bool:
    """True if this client serves the provider; others have their own clients."""
    if provider in BUILT_IN:
        return True
    return provider in settings and (bool(settings[provider].url) or provider not in PROVIDERS)


def endpoint_of(model: ModelRef, settings: Providers, environment: Environment) -> Endpoint:
    """The endpoint of a model; raises `ModelRefused`, before any connection, if it is impossible or not allowed."""
    provider = provider_of(model.provider, settings, environment)
    written = model.provider_url or provider.url
    if not written:
        raise ModelRefused(
            f"there is no address for '{model.name}'; give its provider_url, "
            f"or url under [providers.{model.provider}] in interlock.toml"
        )
    address = _with_api_path(address_of(written, model.name), model.provider)
    if provider.proxy:
        address_of(provider.proxy, f"the proxy of {model.provider}")
    key = _key(model, provider, address, environment)
    if model.provider_url and (fault := fault_in_listing(model, settings, environment)):
        raise ModelRefused(fault)
    known = _settings_at_address(model.provider, provider, address, settings)
    return Endpoint(
        server=Server(f"{model.name} at {address.host}", provider.key_env),
        url=address.url,
        api=api_of(model, settings, environment),
        provider=model.provider,
        source=model.server,
        key=key,
        proxy=provider.proxy,
        limits=provider.limits,
        constrains=provider.constrains,
        constrains_with_tools=known.constrains_with_tools,
        outputs=provider.outputs,
        takes_bounds=model.provider in GRAMMAR_PROVIDERS,
        sentences=provider.constrained_sentences or 0,
        idempotency_header=known.idempotency_header,
    )


def api_of(model: ModelRef, settings: Providers, environment: Environment) -> str:
    """The API that the model is called by: what interlock.toml says, or the only one that OpenAI has for it."""
    said = settings.get(model.provider, ProviderSettings()).api
    if said or not is_openai(model, settings, environment):
        return said or CHAT
    return RESPONSES if openai_model_facts(model.model).responses_only else CHAT


def is_openai(model: ModelRef, settings: Providers, environment: Environment) -> bool:
    """True for OpenAI's models at its own address: facts about them do not apply to another server."""
    if model.provider != "openai":
        return False
    url = model.provider_url or provider_of("openai", settings, environment).url
    return address_of(url, model.name) == address_of(BUILT_IN["openai"].url, model.name)


def as_served(model: ModelRef) -> ModelRef:
    """The provider that serves the model: `local` with an address is a server like Ollama, without one a file here."""
    if model.provider == "local" and model.provider_url:
        return msgspec.structs.replace(model, provider="ollama")
    return model


def _with_api_path(address: Address, provider: str) -> Address:
    """The address with the API path, which Ollama's address usually lacks."""
    if provider == "ollama" and not address.path:
        return msgspec.structs.replace(address, path="/v1")
    return address


def fault_in_listing(model: ModelRef, settings: Providers, environment: Environment) -> str:
    """The reason why a crew may not use this `provider_url`, and the fix; empty if it may."""
    model = as_served(model)
    if not is_served(model.provider, settings):
        return f"the client of {model.provider} calls its own address only; remove provider_url"
    address = address_of(model.provider_url, model.name)
    own = provider_of(model.provider, settings, environment).url
    if is_listed(address, (*((own,) if own else ()), *host_entries(settings))):
        return ""
    return (
        f"'{model.name}' would be called at {address.origin}, which interlock.toml does not list; if that is wanted, "
        f'add hosts = ["{address.origin}"] under [providers.{model.provider}] there'
    )


def host_entries(settings: Providers) -> tuple[str, ...]:
    """All addresses and hosts in the file, for all providers."""
    entries = [(provider.url, *provider.hosts) for provider in settings.values()]
    return tuple(entry for found in entries for entry in found if entry)


def provider_of(name: str, settings: Providers, environment: Environment) -> ProviderSettings:
    """The settings of a provider, from the host's file first."""
    built_in, own = BUILT_IN.get(name, ProviderSettings()), settings.get(name, ProviderSettings())
    url = own.url or (_ollama_url(environment) if name == "ollama" else "") or built_in.url
    return msgspec.structs.replace(
        own,
        url=url,
        key_env=own.key_env or built_in.key_env,
        constrains=own.constrains or built_in.constrains,
        constrains_with_tools=own.constrains_with_tools or built_in.constrains_with_tools,
        outputs=own.outputs or built_in.outputs,
        idempotency_header=own.idempotency_header or built_in.idempotency_header,
    )


class Ability(msgspec.Struct, frozen=True):
    """Support for constrained replies of a model: at all, and in a call with tools."""

    constrains: bool
    constrains_with_tools: bool


def ability_of(model: ModelRef, settings: Providers, environment: Environment) -> Ability:
    model = as_served(model)
    if model.provider == "scripted":  # its replies are already known
        return Ability(True, True)
    if model.provider == "local" and not is_served("local", settings):
        return Ability(True, False)
    if not is_served(model.provider, settings):
        facts = facts_of(model)
        return (
            Ability(facts.takes_schema, facts.takes_schema_with_tools) if facts is not None else Ability(False, False)
        )
    provider = provider_of(model.provider, settings, environment)
    url = model.provider_url or provider.url
    known = _settings_at_address(model.provider, provider, address_of(url, model.name), settings) if url else provider
    return Ability(bool(provider.constrains), bool(provider.constrains) and known.constrains_with_tools)


def _settings_at_address(
    name: str, provider: ProviderSettings, address: Address, settings: Providers
) -> ProviderSettings:
    """The settings at this address: facts about a provider's own server do not apply to another server."""
    built_in = BUILT_IN.get(name, ProviderSettings()).url
    if built_in and address_of(built_in, name).server_identity == address.server_identity:
        return provider
    return settings.get(name, ProviderSettings())


def _key(model: ModelRef, provider: ProviderSettings, address: Address, environment: Environment) -> str:
    if not provider.key_env:
        return ""
    if not _can_receive_key(provider, address):
        raise ModelRefused(
            f"'{model.name}' would send {provider.key_env} to {address.origin}, which is not its provider's address; "
            f"list it as one of the hosts under [providers.{model.provider}] in interlock.toml if that is wanted"
        )
    key = environment.get(provider.key_env, "").strip()
    if not key:
        raise ModelRefused(f"'{model.name}' needs a key; set the environment variable {provider.key_env}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelRefused(
            f"the environment variable {provider.key_env} has no valid key: it contains spaces or odd characters"
        )
    return key


def _can_receive_key(provider: ProviderSettings, address: Address) -> bool:
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


def missing_key_variables(settings: Providers, environment: Environment) -> dict[str, str]:
    """By provider: the variable for its key, if it is not set."""
    found = {}
    for name in dict.fromkeys((*BUILT_IN, *OTHER_PROVIDERS, *settings)):
        if is_served(name, settings):
            variable = provider_of(name, settings, environment).key_env
            if variable and not environment.get(variable, "").strip():
                found[name] = variable
        elif variable := missing_key_variable(name, environment):
            found[name] = variable
    return found


def key_variables(settings: Providers, environment: Environment) -> list[str]:
    """All environment variables with a key that could be sent or shown."""
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
