"""Webhooks that come in: who sent one, whether it is new, and what it says.

Rule 1: the raw body is verified before anything of it is read. A signature is that of Standard Webhooks, over id, time
and body, with one of two secrets while they are exchanged; a plain token is for senders that cannot sign.
Rule 2: what a webhook says is a type that its section allows, and data. CloudEvents are understood as they are.
Other services have schemes of their own; `webhook_schemes` has their rules.
Rule 3: of a signed webhook only what the signature covers counts: its id is `webhook-id`, and its type stands in the
body. Other headers could be changed by whoever got hold of it, and would make it a new one.
"""

import hmac
from collections.abc import Mapping
from typing import Any

import msgspec
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from interlock.adapters.webhook_schemes import SCHEMES, Scheme, hmac_scheme, id_in, type_in
from interlock.adapters.webhook_settings import HMAC, IncomingHook, incoming_secrets
from interlock.broadcast.pattern import matches
from interlock.errors import RequestRefused

TOKEN_HEADER = "x-webhook-token"  # noqa: S105 - the name of a header
ID_HEADER = "webhook-id"


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a webhook says. `id` is the sender's, the same on every try."""

    id: str
    type: str
    data: Any


def incoming_webhooks(hooks: Mapping[str, IncomingHook], environ: Mapping[str, str]) -> "dict[str, IncomingWebhook]":
    """Those that have a secret or a token; the others are not there."""
    found: dict[str, IncomingWebhook] = {}
    for name, hook in hooks.items():
        secrets, token = incoming_secrets(name, hook, environ), environ.get(hook.token_env, "").strip()
        if secrets or token:
            found[name] = IncomingWebhook(hook, secrets, token)
    return found


class IncomingWebhook:
    """One webhook that may come in."""

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

    def said(self, headers: Mapping[str, str], body: bytes) -> Said:
        """What a body says that is JSON; `RequestRefused` if it says nothing, or what it may not."""
        if self._scheme is not None:
            said = _read_foreign(self._scheme, self._hook, headers, body)
        else:
            said = _read(headers if self._token else {ID_HEADER: headers[ID_HEADER]}, body, self._hook.type)
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
    except (WebhookVerificationError, ValueError):  # also what is no base64, no UTF-8 or no signature at all
        return False
    return True


def _read(headers: Mapping[str, str], body: bytes, fixed_type: str) -> Said:
    """From a body, and those headers that can be trusted."""
    value = msgspec.json.decode(body)
    if fixed_type:
        return _said(headers.get(ID_HEADER), fixed_type, value)
    if "ce-type" in headers:  # a CloudEvent whose attributes are in headers
        return _said(headers.get("ce-id", ""), headers["ce-type"], value)
    if not isinstance(value, dict):
        raise _nothing()
    return _said(headers.get(ID_HEADER, value.get("id")), value.get("type"), value.get("data", msgspec.UNSET))


def _read_foreign(scheme: Scheme, hook: IncomingHook, headers: Mapping[str, str], body: bytes) -> Said:
    """What a service says in its own form; all of its body is the data."""
    value = msgspec.json.decode(body)
    kind = hook.type or type_in(scheme, headers, value)
    if not kind:
        place = f"the header {scheme.type_header}" if scheme.type_header else "the field type"
        raise RequestRefused("bad-body", f"{place} does not say what happened; write a fixed 'type' for this webhook")
    return _said(id_in(scheme, headers, value, body), kind, value)


def _said(id: object, type: object, data: Any) -> Said:  # noqa: A002 - as the formats call them
    if not isinstance(id, str) or not isinstance(type, str) or not 0 < len(id) <= 256 or not type:
        raise _nothing()
    return Said(id=id, type=type, data=data)


def _nothing() -> RequestRefused:
    return RequestRefused("bad-body", "a webhook needs an id and a type: {id, type, data}, or a CloudEvent")
