"""Verifies and reads incoming webhooks.

Rule 1: the raw body is verified before it is parsed. A signature is that of Standard Webhooks, over id, time and body,
with one of two secrets during a rotation; a plain token is for senders that cannot sign.
Rule 2: a webhook has a type that its section allows, and data. CloudEvents are accepted. Other services have their own
schemes; see `schemes`.
Rule 3: only signed parts of a signed webhook are used: its id is `webhook-id`, and its type is in the body. An attacker
who has a copy could change other headers and make it look new.
"""

import hmac
from collections.abc import Mapping
from typing import Any

import msgspec
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from interlock.adapters.config.webhook_settings import HMAC, IncomingHook, incoming_secrets
from interlock.adapters.webhooks.schemes import SCHEMES, Scheme, hmac_scheme, id_in, type_in
from interlock.broadcast.pattern import matches
from interlock.errors import RequestRefused

TOKEN_HEADER = "x-webhook-token"  # noqa: S105 - the name of a header
ID_HEADER = "webhook-id"


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a webhook. `id` is the sender's, the same on every try."""

    id: str
    type: str
    data: Any


def incoming_webhooks(hooks: Mapping[str, IncomingHook], environ: Mapping[str, str]) -> "dict[str, IncomingWebhook]":
    """The incoming webhooks with a secret or a token; others are disabled."""
    found: dict[str, IncomingWebhook] = {}
    for name, hook in hooks.items():
        secrets, token = incoming_secrets(name, hook, environ), environ.get(hook.token_env, "").strip()
        if secrets or token:
            found[name] = IncomingWebhook(hook, secrets, token)
    return found


class IncomingWebhook:
    """One incoming webhook."""

    def __init__(self, hook: IncomingHook, secrets: tuple[str, ...], token: str) -> None:
        self._hook, self._token, self._secrets = hook, token, secrets
        self._scheme = scheme_of(hook)
        self._signed = [Webhook(secret) for secret in secrets] if self._scheme is None else []

    def is_from_its_sender(self, headers: Mapping[str, str], body: bytes) -> bool:
        if self._scheme is not None:
            return any(self._scheme.is_signed(secret, headers, body) for secret in self._secrets)
        if self._signed:
            return any(_is_signed(each, headers, body) for each in self._signed)
        given = headers.get(TOKEN_HEADER, "").encode()
        return bool(self._token) and hmac.compare_digest(given, self._token.encode())

    def read_event(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """Reads a JSON body; raises `RequestRefused` if it has no type, or one that is not allowed."""
        if self._scheme is not None:
            said = _read_foreign(self._scheme, self._hook, headers, body)
        else:
            said = _read_standard(headers if self._token else {ID_HEADER: headers[ID_HEADER]}, body, self._hook.type)
        if not any(matches(pattern, said.type) for pattern in self._hook.types):
            raise RequestRefused("webhook-type-not-allowed", f"this webhook may not announce '{said.type[:80]}'")
        return said


def scheme_of(hook: IncomingHook) -> Scheme | None:
    """None for Standard Webhooks and for plain tokens."""
    if hook.scheme == HMAC:
        return hmac_scheme(hook.signature_header.lower(), hook.type_header.lower())
    return SCHEMES.get(hook.scheme)


def _is_signed(by: Webhook, headers: Mapping[str, str], body: bytes) -> bool:
    try:
        by.verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):  # also if it is not base64, not UTF-8 or not a signature at all
        return False
    return True


def _read_standard(headers: Mapping[str, str], body: bytes, fixed_type: str) -> WebhookEvent:
    """Reads the content from a body and the trusted headers."""
    value = msgspec.json.decode(body)
    if fixed_type:
        return _event_of(headers.get(ID_HEADER), fixed_type, value)
    if "ce-type" in headers:  # a CloudEvent with its attributes in headers
        return _event_of(headers.get("ce-id", ""), headers["ce-type"], value)
    if not isinstance(value, dict):
        raise _no_event_error()
    return _event_of(headers.get(ID_HEADER, value.get("id")), value.get("type"), value.get("data", msgspec.UNSET))


def _read_foreign(scheme: Scheme, hook: IncomingHook, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
    """Reads a webhook in a service's own form; its whole body is the data."""
    value = msgspec.json.decode(body)
    kind = hook.type or type_in(scheme, headers, value)
    if not kind:
        place = f"the header {scheme.type_header}" if scheme.type_header else "the field type"
        raise RequestRefused("bad-body", f"{place} has no event type; write a fixed 'type' for this webhook")
    return _event_of(id_in(scheme, headers, value, body), kind, value)


def _event_of(id: object, type: object, data: Any) -> WebhookEvent:  # noqa: A002 - as the formats call them
    if not isinstance(id, str) or not isinstance(type, str) or not 0 < len(id) <= 256 or not type:
        raise _no_event_error()
    return WebhookEvent(id=id, type=type, data=data)


def _no_event_error() -> RequestRefused:
    return RequestRefused("bad-body", "a webhook needs an id and a type: {id, type, data}, or a CloudEvent")
