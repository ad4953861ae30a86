"""`Idempotency-Key`: a repeated request has no further effect.

Rule 1: a request with a key is stored before it is carried out, with the id of what it will create. So a retry after
a crash creates the same thing, or finds it.
Rule 2: the same request again gets the first answer, refusals included; another request with the key is refused.
Rule 3: internal errors, and refusals that waiting may solve, are not stored: such a request can be repeated.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from interlock.compose.interlock import new_run_id
from interlock.errors import InterlockError, RequestRefused
from interlock.ports import Clock, IdempotencyStore, IdempotentRequest
from interlock.server.http.problems import problem_of, raw_problem_response, retry_after_s

HEADER = "idempotency-key"
RETENTION_MS = 24 * 60 * 60 * 1000

_KEY = re.compile(r"[!-~]{1,255}")


class RequestResult(NamedTuple):
    """The stored answer of a request."""

    body: Any
    status: int = 200


# Carries a request out; what it creates gets the given id.
Work = Callable[[str], Awaitable[RequestResult]]


class Idempotency:
    def __init__(
        self,
        requests: IdempotencyStore,
        clock: Clock,
        on_failure: Callable[[InterlockError], None],
        redact: Callable[[bytes], bytes],
    ) -> None:
        """`redact` removes secrets from stored answers."""
        self._requests, self._clock, self._on_failure, self._redact = requests, clock, on_failure, redact
        self._in_progress: set[tuple[str, str]] = set()

    async def run_once(self, request: Request, work: Work) -> Response:
        keys = request.headers.getlist(HEADER)
        planned = new_run_id(self._clock)
        if not keys:
            return _response_of(*await self._run_work(work, planned))
        asked = self._identify_request(request, keys, planned)
        slot = (asked.caller, asked.key)
        if slot in self._in_progress:
            raise RequestRefused("request-in-progress", "the first request with this key is still in progress")
        self._in_progress.add(slot)
        try:
            return await self._run_or_replay(asked, work)
        except InterlockError as error:
            self._on_failure(error)
            raise
        finally:
            self._in_progress.discard(slot)

    def _identify_request(self, request: Request, keys: Sequence[str], planned: str) -> IdempotentRequest:
        key = keys[0]
        if len(keys) > 1 or not _KEY.fullmatch(key):
            raise RequestRefused("bad-idempotency-key", "send one key: 1 to 255 letters, digits and signs of ASCII")
        if self._redact(key.encode()) != key.encode():
            raise RequestRefused("bad-idempotency-key", "the key contains a secret of this server and would be stored")
        whole = (request.method, request.url.path, request.url.query, request.state.body)
        fingerprint = hashlib.sha256(msgspec.json.encode(whole)).digest()
        caller = request.state.caller.id
        return IdempotentRequest(
            caller=caller, key=key, fingerprint=fingerprint, planned=planned, at=self._clock.now_ms()
        )

    async def _run_or_replay(self, asked: IdempotentRequest, work: Work) -> Response:
        first = await self._requests.register_request(asked, forget_before=asked.at - RETENTION_MS)
        if first.fingerprint != asked.fingerprint:
            raise RequestRefused(
                "idempotency-key-reused", "another request was made with this key; use a new key for a new request"
            )
        if first.status:
            return _response_of(first.status, first.body, None)
        status, body, retry_s = await self._run_work(work, first.planned)
        if status < 500 and retry_s is None:
            await self._requests.store_response(msgspec.structs.replace(first, status=status, body=body))
        return _response_of(status, body, retry_s)

    async def _run_work(self, work: Work, planned: str) -> tuple[int, bytes, int | None]:
        try:
            answer = await work(planned)
        except InterlockError as error:
            self._on_failure(error)
            problem = problem_of(error)
            return problem["status"], self._redact(msgspec.json.encode(problem)), retry_after_s(error)
        return answer.status, self._redact(msgspec.json.encode(answer.body)), None


def _response_of(status: int, body: bytes, retry_s: int | None) -> Response:
    if status >= 400 or retry_s is not None:
        return raw_problem_response(status, body, retry_s)
    return Response(body, status, media_type="application/json")
