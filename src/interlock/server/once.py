"""Asking twice does nothing twice: `Idempotency-Key`.

Rule 1: what is asked under a key is stored before it is carried out, with the id that whatever it makes will have; so
whoever asks again after a crash makes the same thing, or finds it made.
Rule 2: the same request again gets the first answer, refusals included; another one under the key is refused.
Rule 3: what failed in us is no answer, nor is a refusal that waiting may help: both may be asked for again.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from interlock.compose.box import new_run_id
from interlock.errors import InterlockError, RequestRefused
from interlock.ports import Asked, Clock, Requests
from interlock.server.problems import problem_answer, problem_of, retry_after_s

HEADER = "idempotency-key"
KEPT_MS = 24 * 60 * 60 * 1000

_KEY = re.compile(r"[!-~]{1,255}")


class Answer(NamedTuple):
    """What came of a request."""

    body: Any
    status: int = 200


# Carries a request out; what it makes gets the id it is given.
Work = Callable[[str], Awaitable[Answer]]


class Once:
    def __init__(
        self,
        requests: Requests,
        clock: Clock,
        on_failure: Callable[[InterlockError], None],
        redact: Callable[[bytes], bytes],
    ) -> None:
        """`redact` takes secrets out of what is kept as an answer."""
        self._requests, self._clock, self._on_failure, self._redact = requests, clock, on_failure, redact
        self._under_way: set[tuple[str, str]] = set()

    async def answer(self, request: Request, work: Work) -> Response:
        keys = request.headers.getlist(HEADER)
        planned = new_run_id(self._clock)
        if not keys:
            return _response(*await self._outcome(work, planned))
        asked = self._asked(request, keys, planned)
        place = (asked.caller, asked.key)
        if place in self._under_way:
            raise RequestRefused("request-in-progress", "the first request under this key is not answered yet")
        self._under_way.add(place)
        try:
            return await self._answer(asked, work)
        except InterlockError as error:
            self._on_failure(error)
            raise
        finally:
            self._under_way.discard(place)

    def _asked(self, request: Request, keys: Sequence[str], planned: str) -> Asked:
        key = keys[0]
        if len(keys) > 1 or not _KEY.fullmatch(key):
            raise RequestRefused("bad-idempotency-key", "send one key: 1 to 255 letters, digits and signs of ASCII")
        if self._redact(key.encode()) != key.encode():
            raise RequestRefused("bad-idempotency-key", "the key holds a secret of this server, and would be kept")
        whole = (request.method, request.url.path, request.url.query, request.state.body)
        fingerprint = hashlib.sha256(msgspec.json.encode(whole)).digest()
        caller = request.state.caller.id
        return Asked(caller=caller, key=key, fingerprint=fingerprint, planned=planned, at=self._clock.now_ms())

    async def _answer(self, asked: Asked, work: Work) -> Response:
        first = await self._requests.remember(asked, forget_before=asked.at - KEPT_MS)
        if first.fingerprint != asked.fingerprint:
            raise RequestRefused(
                "idempotency-key-reused", "another request was made under this key; choose a new key for a new request"
            )
        if first.status:
            return _response(first.status, first.body, None)
        status, body, retry_s = await self._outcome(work, first.planned)
        if status < 500 and retry_s is None:
            await self._requests.answered(msgspec.structs.replace(first, status=status, body=body))
        return _response(status, body, retry_s)

    async def _outcome(self, work: Work, planned: str) -> tuple[int, bytes, int | None]:
        try:
            answer = await work(planned)
        except InterlockError as error:
            self._on_failure(error)
            problem = problem_of(error)
            return problem["status"], self._redact(msgspec.json.encode(problem)), retry_after_s(error)
        return answer.status, self._redact(msgspec.json.encode(answer.body)), None


def _response(status: int, body: bytes, retry_s: int | None) -> Response:
    if status >= 400 or retry_s is not None:
        return problem_answer(status, body, retry_s)
    return Response(body, status, media_type="application/json")
