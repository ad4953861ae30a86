"""Signature schemes of services that send webhooks, and where each puts id and type.

Rule 1: a secret is compared in constant time, over the raw body, before the body is parsed.
Rule 2: only signed parts make a signed webhook a new one. GitHub signs the body but not its headers, so the id of such
a webhook is the hash of its body: the same body again is a redelivery, with any headers.
Rule 3: a service that sends a plain token signs nothing; its headers are trusted.
"""

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Headers = Mapping[str, str]

# How far a signed time may be from now, in either direction: as in Standard Webhooks and Stripe.
TOLERANCE_S = 300

_WORDS = re.compile(r"[^a-z0-9._:-]+")


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme. `is_signed` checks that a body comes from a sender with the secret; the rest locates id and type.

    An empty header name means a field of the body: `id`, `type`.
    """

    is_signed: Callable[[str, Headers, bytes], bool]
    id_header: str = ""
    type_header: str = ""
    type_prefix: str = ""
    signs_headers: bool = True


def has_hex_digest(secret: str, given: str, signed: bytes) -> bool:
    expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(given.strip().lower().encode(), expected.encode())


def has_digest(secret: str, given: str, signed: bytes) -> bool:
    """HMAC-SHA256 in hex, also after `sha256=`, or in base64."""
    text = given.strip().removeprefix("sha256=")
    if has_hex_digest(secret, text, signed):
        return True
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(found, hmac.digest(secret.encode(), signed, "sha256"))


def _github(secret: str, headers: Headers, body: bytes) -> bool:
    return has_hex_digest(secret, headers.get("x-hub-signature-256", "").removeprefix("sha256="), body)


def _gitlab(secret: str, headers: Headers, _: bytes) -> bool:
    return hmac.compare_digest(headers.get("x-gitlab-token", "").encode(), secret.encode())


def _stripe(secret: str, headers: Headers, body: bytes) -> bool:
    """`t=1794800000,v1=hex,v1=hex`: while a secret is rotated there are two signatures."""
    parts = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1 or not re.fullmatch(r"[0-9]{1,12}", times[0]):
        return False
    if abs(time.time() - int(times[0])) > TOLERANCE_S:
        return False
    signed = times[0].encode() + b"." + body
    return any(has_hex_digest(secret, value, signed) for name, _, value in parts if name == "v1")


SCHEMES = {
    "github": Scheme(is_signed=_github, type_header="x-github-event", type_prefix="github:", signs_headers=False),
    "gitlab": Scheme(
        is_signed=_gitlab,
        id_header="x-gitlab-event-uuid",
        type_header="x-gitlab-event",
        type_prefix="gitlab:",
    ),
    "stripe": Scheme(is_signed=_stripe, type_prefix="stripe:"),
}


def hmac_scheme(signature_header: str, type_header: str) -> Scheme:
    """The scheme of a service that signs its body with HMAC-SHA256 in a configured header."""

    def is_signed(secret: str, headers: Headers, body: bytes) -> bool:
        return has_digest(secret, headers.get(signature_header, ""), body)

    return Scheme(is_signed=is_signed, type_header=type_header, signs_headers=False)


def id_in(scheme: Scheme, headers: Headers, value: Any, body: bytes) -> object:
    if not scheme.signs_headers:
        return hashlib.sha256(body).hexdigest()
    if scheme.id_header and scheme.id_header in headers:
        return headers[scheme.id_header]
    named = value.get("id") if isinstance(value, dict) and not scheme.id_header else None
    return named or hashlib.sha256(body).hexdigest()


def type_in(scheme: Scheme, headers: Headers, value: Any) -> str:
    """`Push Hook` of GitLab is `gitlab:push_hook`; empty if there is no type."""
    named = headers.get(scheme.type_header) if scheme.type_header else None
    if named is None and isinstance(value, dict) and not scheme.type_header:
        named = value.get("type")
    words = _WORDS.sub("_", named.strip().lower()).strip("_") if isinstance(named, str) else ""
    return f"{scheme.type_prefix}{words}" if words else ""
