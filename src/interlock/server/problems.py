"""Refusals as people and programs get them: RFC 9457 with a stable code.

Rule 1: every code that can leave the server stands in `CODES`, with its status; the OpenAPI document is made from it.
Rule 2: codes of Interlock's own errors are those of errors.py; the others are raised as `RequestRefused`.
Rule 3: what goes wrong in us is told without its insides: those are in the log.
"""

from typing import Any

import msgspec
from starlette.responses import Response

from interlock.errors import CannotFork, InterlockError, RequestRefused

PROBLEM_JSON = "application/problem+json"

CODES: dict[str, tuple[int, str]] = {
    # Before there is a request
    "bad-request": (400, "This is no request of HTTP/1.1"),
    "headers-too-slow": (408, "The headers took too long to arrive"),
    "headers-too-large": (431, "The headers are too large"),
    "too-many-connections": (503, "Too many connections are open"),
    # The request itself
    "bad-parameter": (400, "A parameter of the address does not hold what it must"),
    "bad-event-id": (400, "The id of the last event is not one that was given out"),
    "bad-json": (400, "The body is not JSON"),
    "too-deep": (400, "The body nests too deep"),
    "bad-idempotency-key": (400, "The Idempotency-Key cannot be one"),
    "no-key": (401, "A key is needed"),
    "wrong-key": (401, "The key, code or session is not valid"),
    "missing-scope": (403, "The key does not allow this"),
    "host-not-allowed": (403, "The server is not called by this name"),
    "origin-not-allowed": (403, "Pages of this origin may not ask"),
    "not-found": (404, "There is nothing at this address"),
    "cursor-not-found": (404, "The place that the cursor names is not there"),
    "method-not-allowed": (405, "This address does not take this method"),
    "body-too-slow": (408, "The body took too long to arrive"),
    "body-too-large": (413, "The body is too large"),
    "not-json": (415, "The body must be application/json, and not encoded"),
    "bad-body": (422, "The body does not hold what it must"),
    "event-ahead": (409, "The last event that was named has not happened in this data folder"),
    "idempotency-key-reused": (409, "Another request was made with this Idempotency-Key"),
    "request-in-progress": (409, "The same request is being carried out"),
    "too-many-requests": (429, "Too many requests with this key"),
    "too-much-unread": (429, "Too much of what was answered to this key is unread"),
    "too-many-failures": (429, "Too many wrong keys from this address"),
    "too-many-streams": (429, "Too many event streams are open"),
    "draining": (503, "The server is stopping"),
    "admission-closed": (503, "Nothing is taken in while the disk is full"),
    "internal-error": (500, "Something is wrong in the server"),
    # Crews and runs
    "crew-not-served": (404, "No such crew is served here"),
    "unsound-crew": (409, "The crew has problems and does not run"),
    "question-not-found": (404, "There is no such question"),
    "bad-broadcast": (422, "The broadcast, subscription or time cannot be"),
    "bad-format": (400, "The pattern cannot be subscribed to"),
    "unknown-subscriber": (400, "There is no such crew or agent to subscribe"),
    "bad-message": (422, "The message is not of a known type and form, or may not be sent there"),
    "too-many-messages": (409, "The run has sent as many messages as it may"),
    "no-such-signal": (404, "Nothing is scheduled, subscribed or dead under this name"),
    "no-such-schedule": (404, "There is no such schedule"),
    "webhook-not-found": (404, "There is no such webhook, or it has no secret"),
    "webhook-type-not-allowed": (403, "The webhook may not announce this type"),
    "letter-not-found": (404, "There is no such dead letter"),
    "run-not-found": (404, "There is no such run"),
    "run-deleted": (410, "The run was deleted"),
    "already-resumed": (409, "The question was answered before, with other words"),
    "not-waiting": (409, "The run does not wait for this"),
    "cannot-fork": (409, "The run cannot be forked there"),
    "order-pending": (202, "The process that drives the run has the order, and has not carried it out yet"),
    "order-refused": (409, "The process that drives the run refused the order"),
    "order-lost": (409, "What became of the order is not known"),
    "not-owner": (409, "Another process has taken the run over"),
    "out-of-order": (409, "The run has moved on meanwhile"),
    "parent-is-over": (409, "The run that called this one is over"),
    "usage-error": (409, "This cannot be done as asked"),
    # The data folder
    "damaged-run": (500, "The journal of the run is damaged"),
    "journal-diverged": (500, "The journal of the run was made by other rules"),
    "damaged-row": (500, "What the data folder holds of this is damaged"),
    "records-missing": (503, "The data folder lacks what it was known to hold"),
    "store-failed": (503, "The data folder cannot be read or written now"),
    "store-broken": (503, "The data folder cannot be written until the server is started again"),
    "storage-full": (507, "The disk of the data folder is full"),
}

# Where waiting helps, and how long, unless whoever refuses knows better.
RETRY_AFTER_S = {"store-failed": 1, "storage-full": 5, "request-in-progress": 1, "order-pending": 1}


def status_of(error: InterlockError) -> int:
    return CODES[_code(error)][0]


def _code(error: InterlockError) -> str:
    return error.code if error.code in CODES else "internal-error"


def problem_of(error: InterlockError) -> dict[str, Any]:
    code = _code(error)
    status, title = CODES[code]
    detail = str(error) if code == error.code else "the log of the server tells more"
    return {**_more(error), "type": type_of(code), "title": title, "status": status, "detail": detail, "code": code}


def _more(error: InterlockError) -> dict[str, Any]:
    """What programs need to know besides the code."""
    if isinstance(error, CannotFork):
        return {"near": list(error.near)}
    return error.more if isinstance(error, RequestRefused) else {}


def type_of(code: str) -> str:
    return f"urn:interlock:problem:{code}"


def problem_response(error: InterlockError) -> Response:
    problem = problem_of(error)
    return problem_answer(problem["status"], msgspec.json.encode(problem), retry_after_s(error))


def problem_answer(status: int, body: bytes, retry_s: int | None = None) -> Response:
    response = Response(body, status, media_type=PROBLEM_JSON)
    if status == 401:
        response.headers["www-authenticate"] = 'Bearer realm="interlock"'
    if retry_s is not None:
        response.headers["retry-after"] = str(retry_s)
    return response


def retry_after_s(error: InterlockError) -> int | None:
    given = error.retry_after_s if isinstance(error, RequestRefused) else None
    return given if given is not None else RETRY_AFTER_S.get(error.code)
