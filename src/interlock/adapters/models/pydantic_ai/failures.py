"""Translates failures of pydantic-ai, or of its client, for the run: retry, shorten the prompt, or give up."""

from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelAPIError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
    UserError,
)

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.endpoint import Server
from interlock.adapters.models.openai.provider_failures import RETRY_AFTER_MAX_MS
from interlock.adapters.models.openai.provider_failures import failure_of as failure_of_status
from interlock.errors import ModelRefused, ModelUnavailable, PortError, PromptTooLong

# The library's advice to newcomers, after the error.
_ADVICE = "To try Pydantic AI"


def failure_of(model: str, error: Exception, keys: KnownSecrets) -> PortError:
    """The error to raise instead; its message is one line without anything that looks like a key."""
    if isinstance(error, ModelAPIError):
        return _of_provider(model, error, keys)
    words = keys.safe_line(str(error).partition(_ADVICE)[0])
    if isinstance(error, UserError | ImportError):
        return ModelRefused(f"{model} cannot be called: {words}")
    if isinstance(error, ContentFilterError):
        return ModelRefused(f"{model} withheld its reply: {words}")
    if isinstance(error, UnexpectedModelBehavior):
        return ModelUnavailable(f"{model} gave an invalid reply: {words}")
    return ModelRefused(f"the client of {model} failed: {type(error).__name__}: {words}")


def _of_provider(model: str, error: ModelAPIError, keys: KnownSecrets) -> PortError:
    wait_ms = int(min(max(error.retry_after or 0, 0) * 1000, RETRY_AFTER_MAX_MS))
    if isinstance(error, ModelHTTPError):
        server = Server(model, "the key of its provider")
        failure = failure_of_status(server, keys, error.status_code, _inner(error.body), wait_ms)
    else:
        failure = ModelUnavailable(f"{model} failed: {keys.safe_line(error.message)}", retry_after_ms=wait_ms)
    if isinstance(error, ModelContextWindowExceededError):
        return PromptTooLong(str(failure))
    is_final = isinstance(error, ModelQuotaExceededError | ModelRequestRejectedError)
    return ModelRefused(str(failure)) if is_final and isinstance(failure, ModelUnavailable) else failure


def _inner(body: object) -> object:
    """The error text itself, without the wrapping of some providers."""
    return body.get("error", body) if isinstance(body, dict) else body
