"""Translates a provider's error for the run: retry, shorten the prompt, or give up.

Rule 1: 429, 408, 409, 425 and 5xx are retried; Retry-After is honoured. A used-up quota is final, with any status.
Rule 2: a conversation that is too long is recognised by code or by words, because servers differ in both.
Rule 3: one safe line of the provider's text is kept; headers and addresses are not.
"""

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.openai.endpoint import Server
from interlock.errors import ModelRefused, ModelUnavailable, PortError, PromptTooLong

# A longer wait than a day is a mistake of the server or of a clock.
RETRY_AFTER_MAX_MS = 86_400_000

TOO_MANY = 429
# With Retry-After these are about all calls, not about one.
OVERLOADED = (TOO_MANY, 503, 529)
MAY_PASS = (408, 409, 425, TOO_MANY)
# The statuses of servers for a request with unsupported fields.
WRONG_REQUEST = (400, 422, 501)
UNAUTHORISED = (401, 403)
TOO_LARGE = 413

QUOTA_CODES = ("insufficient_quota", "billing_hard_limit_reached")
PASSING_CODES = ("rate_limit", "overloaded", "server_error", "timeout")
TOO_LONG_CODES = ("context_length_exceeded", "exceed_context_size_error", "string_above_max_length")
_TOO_LONG_WORDS = re.compile(
    r"maximum context length|context (?:length|window|size)|(?:prompt|input|request) is too (?:long|large)"
    r"|too many (?:input )?tokens|reduce the length of the (?:messages|prompt)|longer than the (?:model|context)",
    re.IGNORECASE,
)


class _ErrorDetails(msgspec.Struct, frozen=True):
    words: str
    code: str
    status: int | None


def failure_of(
    server: Server, keys: KnownSecrets, status: int | None, error: object, retry_after_ms: int = 0, advice: str = ""
) -> PortError:
    """The error to raise for a status, or for an error that came in the middle of a stream (`status` None).

    `advice` is shown if the server reports that the request is wrong.
    """
    said = _error_details(error)
    if status is None:
        status = said.status
    words = keys.safe_line(said.words)
    answered = f"{server.name} answered {status}" if status is not None else f"{server.name} failed while it replied"
    message = f"{answered}: {words}" if words else answered
    if _is_too_long(status, said):
        return PromptTooLong(message)
    if said.code in QUOTA_CODES:
        return ModelRefused(message)
    if _is_transient(status, said.code):
        return ModelUnavailable(message, retry_after_ms=retry_after_ms, is_overloaded=status in OVERLOADED)
    return ModelRefused(message + (_advice(server, status) or (advice if status in WRONG_REQUEST else "")))


def _is_too_long(status: int | None, said: _ErrorDetails) -> bool:
    if status == TOO_LARGE or said.code in TOO_LONG_CODES:
        return True
    return status != TOO_MANY and _TOO_LONG_WORDS.search(said.words) is not None


def _is_transient(status: int | None, code: str) -> bool:
    if status is not None:
        return status in MAY_PASS or status >= 500
    return not code or any(word in code for word in PASSING_CODES)


def _advice(server: Server, status: int | None) -> str:
    if status in UNAUTHORISED:
        return (
            f"; check {server.key_env}" if server.key_env else "; it wants a key: name one as key_env of its provider"
        )
    if status is not None and 300 <= status < 400:
        return "; redirects are not followed: correct provider_url"
    return ""


def body_as_error(body: bytes) -> object:
    """The content of an error's body: the `error` of a JSON object, the object, or the text."""
    try:
        values = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace")
    if isinstance(values, list) and values:
        values = values[0]
    return values.get("error", values) if isinstance(values, dict) else values


def _error_details(error: object) -> _ErrorDetails:
    if not isinstance(error, Mapping):
        return _ErrorDetails(error if isinstance(error, str) else "", "", None)
    code = error.get("code") or error.get("type") or ""
    words = error.get("message") or error.get("detail") or error.get("error") or ""
    kind = str(error.get("type") or "")
    if isinstance(code, str) and re.fullmatch("[45][0-9]{2}", code):
        code = int(code)
    status = code if isinstance(code, int) and 400 <= code < 600 else None
    named = kind if isinstance(code, int) or kind in TOO_LONG_CODES else str(code)
    return _ErrorDetails(words if isinstance(words, str) else _as_text(words), named, status)


def _as_text(words: Any) -> str:
    return msgspec.json.encode(words).decode()


def retry_after_ms(header: str | None, now_ms: int) -> int:
    """The time to wait, from seconds or a date; 0 if there is no valid value."""
    if not header:
        return 0
    text = header.strip()
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        wait = float(text) * 1000
    else:
        try:
            when = parsedate_to_datetime(text)
            wait = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000 - now_ms
        except (ValueError, OverflowError):
            return 0
    return int(min(max(wait, 0), RETRY_AFTER_MAX_MS))
