"""Resumes runs: answers a wait, or continues a parked run, in this process or in the one that drives the run."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.compose.orders import OrderDesk
from interlock.compose.preflight import Preflight, require_name, require_size, require_text
from interlock.engine.run import OVER
from interlock.engine.state import RunState
from interlock.errors import AlreadyResumed, NotWaiting
from interlock.ports import RunRow
from interlock.runtime.orders import RESUME, resume_body
from interlock.runtime.runner import GivenAnswer, Runner

# Why a run takes no answer now.
_STILL_RUNNING = "it is running; 'interlock runs follow' shows it"


class RunResumer:
    """Has runs resumed, in whichever process they are driven."""

    def __init__(
        self,
        runner: Runner,
        desk: OrderDesk,
        preflight: Preflight,
        secrets: KnownSecrets,
        *,
        state_of: Callable[[str], Awaitable[RunState]],
        recover_tree: Callable[[str], Awaitable[None]],
    ) -> None:
        self._runner, self._desk, self._preflight, self._secrets = runner, desk, preflight, secrets
        self._state_of, self._recover_tree = state_of, recover_tree

    async def resume(self, run_id: str, given: GivenAnswer, *, continues_parked: bool) -> None:
        """Answers a wait or continues the run. The same answer again changes nothing; another one is refused."""
        require_text(run_id, "the id of a run")
        require_text(given.text, "an answer")
        require_name(given.by)
        given = given._replace(text=self._secrets.redact(given.text))
        text, token = given.text, given.token
        row = await self._runner.journal.row(run_id)
        require_size(await self._runner.crews.of(row.crew_sha), text)
        answers = bool(text) or token is not None or row.status != "running"
        elsewhere = await self._desk.is_driven_elsewhere(run_id)
        if elsewhere and not answers:  # it is running, and nothing more is asked
            return
        if elsewhere and token is None:
            given = given._replace(token=await self._only_token(run_id, text))
        body = resume_body(given.token, text, continues_parked=continues_parked, may_hold=given.may_hold)

        async def resume_here(order: str) -> str:
            await self._resume_here(run_id, given, answers, continues_parked, order)
            return ""

        try:
            await self._desk.ensure(self._desk.new_order(run_id, RESUME, body, by=given.by), resume_here)
        except AlreadyResumed as again:
            if not again.same:
                raise
        except NotWaiting as refusal:
            if row.status not in OVER:
                raise
            raise NotWaiting(run_id, None, [], because=_ending_sentence(row)) from refusal

    async def _only_token(self, run_id: str, text: str) -> str | None:
        """The token of the only open wait, for an answer without one; None for a parked run without an answer."""
        state = await self._state_of(run_id)
        waits = [wait.token for wait in state.waits]
        if state.parked and not text:
            return None
        if len(waits) != 1:
            raise NotWaiting(run_id, None, waits, because=_STILL_RUNNING if state.status == "running" else "")
        return waits[0]

    async def _resume_here(
        self, run_id: str, given: GivenAnswer, answers: bool, continues_parked: bool, order: str
    ) -> None:
        row = await self._runner.journal.row(run_id)
        crew = await self._runner.crews.of(row.crew_sha)
        if row.status in ("running", "paused"):
            await self._preflight.require_runnable(crew, row, self._runner.journal)
        if row.status == "running" and run_id not in self._runner.live:
            if answers and given.token is None and not (await self._state_of(run_id)).waits:
                raise NotWaiting(run_id, None, [], because=_STILL_RUNNING)
            await self._recover_tree(run_id)
        if answers:
            await self._runner.resume(crew, run_id, given, continues_parked=continues_parked, order=order)


def _ending_sentence(row: RunRow) -> str:
    when = datetime.fromtimestamp(row.updated_at / 1000, UTC)
    return f"it {'was ' if row.status == 'cancelled' else ''}{row.status} at {when:%Y-%m-%d %H:%M} UTC"
