"""Refusals as RFC 9457 problems with a stable code.

Rule 1: every code that the server sends is in `CODES`, with its status; the OpenAPI document is made from it.
Rule 2: codes of Interlock's own errors are those of `interlock.errors`; the others are raised as `RequestRefused`.
Rule 3: internal errors, and what a store says of itself, are sent without details: those are in the log.
"""

import logging
from typing import Any

import msgspec
from starlette.responses import Response

from interlock.errors import CannotFork, InterlockError, RequestRefused

PROBLEM_JSON = "application/problem+json"

CODES: dict[str, tuple[int, str]] = {
    # Before there is a request
    "bad-request": (400, "This is not an HTTP/1.1 request"),
    "headers-too-slow": (408, "The headers took too long to arrive"),
    "headers-too-large": (431, "The headers are too large"),
    "too-many-connections": (503, "Too many connections are open"),
    # The request itself
    "bad-parameter": (400, "A parameter of the address is not valid"),
    "bad-event-id": (400, "The id of the last event is not valid"),
    "bad-json": (400, "The body is not JSON"),
    "too-deep": (400, "The body nests too deep"),
    "bad-idempotency-key": (400, "The Idempotency-Key is not valid"),
    "no-key": (401, "A key is needed"),
    "wrong-key": (401, "The key, code or session is not valid"),
    "missing-scope": (403, "The key does not allow this"),
    "host-not-allowed": (403, "The host is not allowed"),
    "origin-not-allowed": (403, "The origin is not allowed"),
    "not-found": (404, "The address was not found"),
    "cursor-not-found": (404, "The position of the cursor no longer exists"),
    "method-not-allowed": (405, "The address does not allow this method"),
    "body-too-slow": (408, "The body took too long to arrive"),
    "body-too-large": (413, "The body is too large"),
    "not-json": (415, "The body must be application/json, and not encoded"),
    "bad-body": (422, "The body is not valid"),
    "event-ahead": (409, "The store has no such last event"),
    "idempotency-key-reused": (409, "Another request was made with this Idempotency-Key"),
    "request-in-progress": (409, "The same request is in progress"),
    "too-many-requests": (429, "Too many requests with this key"),
    "too-much-unread": (429, "Too many answers to this key are unread"),
    "too-many-failures": (429, "Too many wrong keys from this address"),
    "too-many-queued": (429, "Too many runs wait for a worker"),
    "too-many-streams": (429, "Too many event streams are open"),
    "draining": (503, "The server is stopping"),
    "admission-closed": (503, "New work is refused while the disk is full"),
    "internal-error": (500, "Internal server error"),
    # Crews and runs
    "crew-not-served": (404, "No such crew is served here"),
    "unsound-crew": (409, "The crew has problems and does not run"),
    "question-not-found": (404, "There is no such question"),
    "bad-broadcast": (422, "The broadcast, subscription or time is not valid"),
    "bad-format": (400, "The pattern is not valid"),
    "unknown-subscriber": (400, "There is no such crew or agent to subscribe"),
    "bad-message": (422, "The message has an unknown type or form, or may not be sent to this agent"),
    "too-many-messages": (409, "The run has reached its limit of messages"),
    "no-such-signal": (404, "There is no such delayed signal, subscription or dead letter"),
    "no-such-approval": (404, "There is no such approval"),
    "no-such-schedule": (404, "There is no such schedule"),
    "webhook-not-found": (404, "There is no such webhook, or it has no secret"),
    "webhook-type-not-allowed": (403, "The webhook may not emit this type"),
    "letter-not-found": (404, "There is no such dead letter"),
    "run-not-found": (404, "There is no such run"),
    "run-deleted": (410, "The run was deleted"),
    "already-resumed": (409, "The question has another answer already"),
    "not-waiting": (409, "The run does not wait for this"),
    "input-refused": (409, "A hook of the host refused the answer"),
    "cannot-fork": (409, "The run cannot be forked there"),
    "order-pending": (202, "The process that drives the run has the order, and has not carried it out yet"),
    "order-refused": (409, "The process that drives the run refused the order"),
    "order-lost": (409, "The outcome of the order is not known"),
    "not-owner": (409, "Another process drives the run now"),
    "out-of-order": (409, "The run has changed meanwhile"),
    "parent-is-over": (409, "The run that called this one is over"),
    "host-lacks": (409, "The run was begun with models, deps or functions that this server does not have"),
    "usage-error": (409, "This cannot be done as asked"),
    # The store
    "damaged-run": (500, "The journal of the run is damaged"),
    "journal-diverged": (500, "A replay of the journal gives other decisions"),
    "damaged-row": (500, "This entry of the store is damaged"),
    "records-missing": (503, "The store lacks acknowledged records"),
    "store-failed": (503, "The store cannot be read or written now"),
    "store-broken": (503, "The store cannot be written until the server is started again"),
    "storage-full": (507, "The disk of the store is full"),
}

# What clients are told of a store: its own words may hold addresses, paths and SQL.
_OF_THE_STORE = {
    "store-failed": "the store did not do this; try again in a moment, and see the server's log if it does not help",
    "store-broken": "the store takes no more writes; the server has to be started again, and its log says why",
    "storage-full": "the store takes nothing more until its disk has room; see the server's log",
}

_log = logging.getLogger("interlock")

# Seconds after which to retry, unless the refusal has its own.
RETRY_AFTER_S = {
    "store-failed": 1,
    "storage-full": 5,
    "request-in-progress": 1,
    "order-pending": 1,
    "too-many-queued": 5,
}


def status_of(error: InterlockError) -> int:
    return CODES[_code_of(error)][0]


def _code_of(error: InterlockError) -> str:
    return error.code if error.code in CODES else "internal-error"


def problem_of(error: InterlockError) -> dict[str, Any]:
    code = _code_of(error)
    status, title = CODES[code]
    return {
        **_extra_fields(error),
        "type": type_of(code),
        "title": title,
        "status": status,
        "detail": detail_of(error),
        "code": code,
    }


def detail_of(error: InterlockError) -> str:
    """The text of an error for a client; where that leaves something out, all of it goes to the log."""
    code = _code_of(error)
    if code == error.code and (code not in _OF_THE_STORE or isinstance(error, RequestRefused)):
        return str(error)
    _log.warning("a request failed with %s: %s", error.code, error)
    return _OF_THE_STORE.get(code, "see the server's log")


def _extra_fields(error: InterlockError) -> dict[str, Any]:
    """Fields of an error that programs need besides the code."""
    if isinstance(error, CannotFork):
        return {"near": list(error.near)}
    return error.more if isinstance(error, RequestRefused) else {}


def type_of(code: str) -> str:
    return f"urn:interlock:problem:{code}"


def problem_response(error: InterlockError) -> Response:
    problem = problem_of(error)
    return raw_problem_response(problem["status"], msgspec.json.encode(problem), retry_after_s(error))


def raw_problem_response(status: int, body: bytes, retry_s: int | None = None) -> Response:
    response = Response(body, status, media_type=PROBLEM_JSON)
    if status == 401:
        response.headers["www-authenticate"] = 'Bearer realm="interlock"'
    if retry_s is not None:
        response.headers["retry-after"] = str(retry_s)
    return response


def retry_after_s(error: InterlockError) -> int | None:
    given = error.retry_after_s if isinstance(error, RequestRefused) else None
    return given if given is not None else RETRY_AFTER_S.get(error.code)
