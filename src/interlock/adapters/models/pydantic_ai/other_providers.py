"""Providers with their own clients, through the extra `llm`, and the packages that they need.

Rule 1: nothing of the extra is loaded for these questions, and a call loads it outside of the event loop.
Rule 2: a crew file cannot set the address of such a provider: its key would go there.
"""

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from interlock.adapters.config.extras import install_line
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.crew.definition import ModelRef
from interlock.errors import ModelRefused
from interlock.ports import Delta, ModelReply, ModelRequest, ReasoningDelta

if TYPE_CHECKING:
    from interlock.adapters.models.pydantic_ai.models import PydanticAIModel

LIBRARY = "pydantic_ai"


class OtherProvider(msgspec.Struct, frozen=True):
    """The library's name of a provider, the module of its client, and the library's extra that installs it."""

    name: str
    module: str
    keys: tuple[str, ...] = ()  # environment variables, one of which must contain its key; none if there are other ways
    extra: str = ""  # empty if the extra `llm` already has the client
    secrets: tuple[str, ...] = ()  # environment variables with a key whose names do not end in _API_KEY


OTHER_PROVIDERS = {
    "anthropic": OtherProvider(
        "anthropic",
        "anthropic",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        secrets=("ANTHROPIC_AUTH_TOKEN",),
    ),
    "azure": OtherProvider("azure", "openai", ("AZURE_OPENAI_API_KEY",)),
    "bedrock": OtherProvider(
        "bedrock",
        "boto3",
        extra="bedrock",
        secrets=("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    ),
    "cohere": OtherProvider("cohere", "cohere", ("CO_API_KEY",), "cohere"),
    "gemini": OtherProvider("google", "google.genai", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "google"),
    "google": OtherProvider("google", "google.genai", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), "google"),
    "groq": OtherProvider("groq", "groq", ("GROQ_API_KEY",), "groq"),
    "huggingface": OtherProvider("huggingface", "huggingface_hub", ("HF_TOKEN",), "huggingface", ("HF_TOKEN",)),
    "mistral": OtherProvider("mistral", "mistralai", ("MISTRAL_API_KEY",), "mistral"),
    "xai": OtherProvider("xai", "xai_sdk", ("XAI_API_KEY",), "xai"),
}

SECRETS = tuple(name for provider in OTHER_PROVIDERS.values() for name in provider.secrets)


def install_command(provider: str) -> str:
    """The command that installs the missing packages of this provider; empty if none is missing."""
    other = OTHER_PROVIDERS.get(provider)
    if other is None or (is_installed(LIBRARY) and is_installed(other.module)):
        return ""
    return install_line("llm", *([f"pydantic-ai-slim[{other.extra}]"] if other.extra else []))


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent package
        return False


def require_callable(model: ModelRef) -> None:
    """Raises `ModelRefused`, before anything is loaded or sent, if this host cannot call the model."""
    command = install_command(model.provider)
    if command:
        raise ModelRefused(f"'{model.name}' needs packages that are not installed; install them with: {command}")
    if model.provider_url:
        raise ModelRefused(
            f"'{model.name}' has a provider_url, and its client would send its key there; remove it, "
            "or use openai-compatible if the server speaks OpenAI's chat completions"
        )


def missing_key_variable(provider: str, environment: Mapping[str, str]) -> str:
    """The variable that must be set to call this provider; empty if none is missing."""
    names = OTHER_PROVIDERS[provider].keys
    return names[0] if names and not any(environment.get(name, "").strip() for name in names) else ""


def require_key(model: ModelRef, environment: Mapping[str, str]) -> None:
    """Raises `ModelRefused` before a run starts, instead of in its first call."""
    variable = missing_key_variable(model.provider, environment)
    if variable:
        raise ModelRefused(f"'{model.name}' needs a key; set the environment variable {variable}")


class OtherProviderModel:
    """One model of such a provider, set up by its first call."""

    def __init__(self, model: ModelRef, keys: KnownSecrets) -> None:
        require_callable(model)
        self._model, self._keys = model, keys
        self._loaded: PydanticAIModel | None = None
        self._loading = asyncio.Lock()

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        async with self._loading:
            if self._loaded is None:
                self._loaded = await asyncio.to_thread(self._load)
        async with aclosing(self._loaded.reply(request)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await loaded.close()

    def _load(self) -> "PydanticAIModel":
        from interlock.adapters.models.pydantic_ai.models import open_model

        return open_model(self._model, OTHER_PROVIDERS[self._model.provider].name, self._keys)
