"""`Interlock`, which users import: starts, resumes and shows the runs of a data folder."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.function_callers import OWN_LOOP, FunctionCaller
from interlock.adapters.models.given_models import ModelChoice
from interlock.adapters.store_rules.record_format import seal_chain
from interlock.approvals.standing import RevokedApproval, StandingApproval
from interlock.broadcast.run_schedules import RunSchedule
from interlock.compose.given.crew_like import AnyCrew, definition_of
from interlock.compose.given.run_resources import RunGift
from interlock.compose.open_folder import DATA_FOLDER as DATA_FOLDER
from interlock.compose.open_folder import OpenFolder
from interlock.compose.orders import BY_HOST
from interlock.compose.preflight import require_models_value, require_name, require_run_id, require_text
from interlock.compose.questions import open_questions, token_of
from interlock.compose.results import Result as Result
from interlock.compose.results import SetAsideRun, result_of
from interlock.compose.run_handle import RunHandle as RunHandle
from interlock.compose.run_ids import new_run_id as new_run_id
from interlock.compose.usage import DAY_MS, CostReport, cost_report
from interlock.crew.definition import AgentDefinition
from interlock.engine.events import NO_CONTEXT, CrewContext, MessageGiven
from interlock.errors import AlreadyResumed, NoSuchApproval, UsageError
from interlock.ids import parent_of, root_of
from interlock.ports import ALL_RUNS, Observer, OpenQuestion
from interlock.runtime.following import PublicEvent
from interlock.runtime.fork import fork_run
from interlock.runtime.orders import CANCEL, MESSAGE, message_body
from interlock.runtime.runner import GivenAnswer, replay_run, row_of
from interlock.signals.registry import SignalRegistry

_log = logging.getLogger("interlock")


class Interlock(OpenFolder):
    """One process and its data folder: starts runs, resumes them, and shows them."""

    @property
    def set_aside(self) -> tuple[SetAsideRun, ...]:
        """Runs that a process could not drive, of all processes on the store, as this one has last read them."""
        aside = self.runner.set_asides.reasons if hasattr(self, "runner") else {}
        return tuple(SetAsideRun(run=run, reason=reason) for run, reason in aside.items())

    def watch(self, observer: Observer, on_delta: Callable[[PublicEvent], None] | None = None) -> None:
        """Calls `observer` with every record that is stored from now on, and `on_delta` with every piece of a reply."""
        self._require_open()
        self.runner.observers = (*self.runner.observers, observer)
        if on_delta is not None:
            self._opened.deltas.subscribe(ALL_RUNS, lambda delta: on_delta(delta.event))

    def registry_of_run(self, run_id: str) -> SignalRegistry | None:
        """The signals of the crew of a run, while this process drives it."""
        table = self.runner.table_of(run_id)
        return table.registry if table is not None else None

    def redactor(self) -> KnownSecrets:
        """The secrets that must not be stored or shown; more can be added."""
        return self._known

    async def start(
        self,
        crew: AnyCrew,
        text: str,
        *,
        run_id: str | None = None,
        context: CrewContext = NO_CONTEXT,
        by: str = "",
        models: ModelChoice | None = None,
        deps: Any = None,
        user: str | None = None,
        place: FunctionCaller = OWN_LOOP,
    ) -> RunHandle:
        """Starts a run. `by` names the caller, `user` the user for whom it works; the journal keeps both.

        `models` reply for this run instead of those that its crew names, `deps` are given to its tools; both are kept
        until it is over. Tools see the user (`ToolContext.user`), models do not. `place` is where functions of the
        program are called.

        The same `run_id` again gives the first run, and continues it if its process is gone. It raises
        `AlreadyStarted` if the text or the crew is another one.
        """
        self._require_open()
        is_new, run_id = run_id is None, self._id_for(run_id)
        require_models_value(models)
        gift = RunGift(models, deps, place)
        row = await self._starter.start_once(
            crew, text, run_id, gift, context=context, by=by, user=user or "", is_new_id=is_new
        )
        return RunHandle(self, run_id, row)

    def _id_for(self, run_id: str | None) -> str:
        """The given id, if it is valid, or a new one."""
        if run_id is None:
            return new_run_id(self.clock)
        require_run_id(run_id)
        return run_id

    async def listen(self, crew: AnyCrew) -> None:
        """Subscribes the agents of a crew as its file says, also while no run of it exists.

        A broadcast to a subscription that is not silent starts a run, if this host was opened with `recover`.
        """
        self._require_open()
        await self._starter.listen(crew)

    async def schedule_runs(self, crew: AnyCrew, text: str, **when: Any) -> RunSchedule:
        """Schedules runs of a crew; `when` is as for `schedules.add`. They use the newest known file of the crew."""
        self._require_open()
        await self._starter.require_schedulable(crew, text)
        return await self.schedules.add(definition_of(crew).name, text, **when)

    async def continue_run(
        self,
        crew: AnyCrew,
        text: str,
        finished: str,
        *,
        run_id: str | None = None,
        by: str = "",
        models: ModelChoice | None = None,
        deps: Any = None,
        user: str | None = None,
    ) -> RunHandle:
        """Starts a new run from the history of a finished one, for the same user unless another one is named.

        It needs what it is begun with, as every new run.
        """
        require_models_value(models)
        row = await self.journal.row(finished)
        if row.status in ("running", "paused"):
            raise UsageError(f"run '{finished}' is {row.status}; only a finished run can be continued")
        before = replay_run(await self.crew_of(row), finished, await self.journal.records(finished))
        history = tuple(before.state.history)
        run_id = self._id_for(run_id)
        user = before.state.user if user is None else user
        gift = RunGift(models, deps)
        first = await self._starter.start_once(
            crew, text, run_id, gift, history=history, continues=finished, by=by, user=user
        )
        return RunHandle(self, run_id, first)

    async def resume(
        self,
        run_id: str,
        text: str = "",
        *,
        token: str | None = None,
        by: str = "",
        models: ModelChoice | None = None,
        deps: Any = None,
        may_hold: bool = True,
    ) -> RunHandle:
        """Answers a wait, or continues a parked run. `by` names the caller; the journal keeps it.

        `models` and `deps` are given to the run until it is over: a run that was begun with some continues only where
        they are given (`HostLacks`).

        `may_hold`: the caller may approve later calls of a tool too, with `for this run` or `always`.
        The same answer again gives the first outcome; another one is refused.
        """
        self._require_open()
        require_text(run_id, "the id of a run")
        require_models_value(models)
        with self.resources.lend(run_id, RunGift(models, deps)):
            await self._resumer.resume(run_id, GivenAnswer(token, text, by, may_hold), continues_parked=True)
        await self._starter.forget_unless_needed(root_of(run_id))
        return RunHandle(self, run_id)

    async def park(self, run_id: str) -> bool:
        """Parks a run that this process drives until `resume`; True if it is parked now."""
        self._require_open()
        return await self.runner.park(run_id, by=BY_HOST)

    async def park_all(self) -> None:
        """Parks every run that this process drives until `resume`."""
        self._require_open()
        await self.runner.park_all(by=BY_HOST)

    def stop_without_waiting(self) -> None:
        """Makes closing not wait for work in progress: recovery redoes what is not stored."""
        self._require_open()
        self.runner.leaving_max_ms = 0

    def stop_claiming(self) -> None:
        """Takes no run over from now on; the runs that this process drives continue."""
        self._require_open()
        self._claims.stop()
        self.runner.order_taker.takes_unowned = False

    async def resume_parked(self) -> tuple[SetAsideRun, ...]:
        """Continues every parked run of the folder; returns those that this process cannot drive, with the reason."""
        self._require_open()
        return await self._recovery.resume_parked()

    async def answer(self, question: str, text: str, *, by: str = "", may_hold: bool = True) -> RunHandle:
        """Answers a question by the id of its message, or a wait by its token. One answer counts.

        A parked run stores the answer and stays parked. `may_hold` is as for `resume`.

        The same answer again gives the first outcome, another one is refused (`AlreadyResumed`).
        """
        self._require_open()
        run_id = question.rpartition(":")[0]
        if not run_id:
            raise UsageError(
                f"'{question[:80]}' is not the id of a question; 'interlock runs questions' lists the open ones"
            )
        try:
            token = token_of(await self.state(run_id), question)
            await self._resumer.resume(run_id, GivenAnswer(token, text, by, may_hold), continues_parked=False)
        except AlreadyResumed as error:  # by the id that the caller gave
            raise AlreadyResumed(run_id, question, same=error.same) from error
        return RunHandle(self, run_id)

    async def questions(self) -> list[OpenQuestion]:
        """The open questions to people in this folder, the oldest first."""
        self._require_open()
        return (await open_questions(self.store, self.crew_of))[0]

    async def approvals(self) -> Sequence[StandingApproval]:
        """The standing approvals of this folder, the newest first."""
        self._require_open()
        return await self.store.standing_approvals()

    async def past_approvals(self) -> Sequence[RevokedApproval]:
        """The approvals that were revoked, with who did it and when, the last one first."""
        self._require_open()
        return await self.store.past_approvals()

    async def revoke_approval(self, approval: str, *, by: str = BY_HOST) -> None:
        """Ends a standing approval at once, also for runs in progress. `by` names the caller; it is stored.

        Raises `NoSuchApproval` if there is none of this id.
        """
        self._require_open()
        require_text(approval, "the id of an approval")
        require_name(by)
        if not await self.store.revoke_approval(approval, by, self.clock.now_ms()):
            raise NoSuchApproval(approval)
        _log.info("approval %s is revoked by %s", approval, by, extra={"fields": {"approval": approval, "by": by}})

    async def send_message(
        self,
        run_id: str,
        type: str,  # noqa: A002 - the contract's name
        to: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str = "",
    ) -> str:
        """Sends a message of a type that this program registered to an agent of a run; returns the message's id.

        Raises `BadMessage` for an unknown type, a body that does not fit, and an agent that may not get it. A message
        sent twice with the same `key` is sent once. An answer is an ANSWER in the run's events.
        """
        self._require_open()
        if self._known.redact(key) != key:
            raise UsageError("the key of a message contains a secret of this host and would be stored; choose another")
        row = await self.journal.row(run_id)
        given = MessageGiven(kind=type, to=to, body=dict(body or {}), key=key)
        crew = await self.crew_of(row)

        async def send_here(order: str) -> str:
            return await self.runner.send_message(crew, run_id, given, order=order)

        return await self._desk.ensure(self._desk.new_order(run_id, MESSAGE, message_body(given)), send_here)

    async def cancel(self, run_id: str, *, by: str = BY_HOST) -> RunHandle:
        """Cancels a run, in whichever process it is driven; the request and its caller are stored when this returns."""
        require_name(by)
        row = await self.journal.row(run_id)
        crew = await self.crew_of(row)

        async def cancel_here(order: str) -> str:
            await self.runner.cancel(crew, run_id, by=by, order=order)
            return ""

        if row.status in ("running", "paused"):
            await self._desk.ensure(self._desk.new_order(run_id, CANCEL, by=by), cancel_here)
        return RunHandle(self, run_id)

    async def fork(
        self,
        run_id: str,
        after: int,
        *,
        new_id: str | None = None,
        models: ModelChoice | None = None,
        deps: Any = None,
    ) -> RunHandle:
        """Starts a new run that shares the recorded past of another one up to a seq, and continues from there.

        That past includes the replies and the cost of sub-crews; their runs stay with the original. The fork needs what
        the original was begun with: `models` and `deps` are given to it as to `start`.
        """
        require_models_value(models)
        if parent_of(run_id):
            root = root_of(run_id)
            raise UsageError(f"can't fork '{run_id}': it is part of run '{root}' and shares its limits; fork '{root}'")
        row = await self.journal.row(run_id)
        crew, new_id, now = await self.crew_of(row), self._id_for(new_id), self.clock.now_ms()
        self.runner.crews.require_proven(crew, row.crew_sha)
        with self.resources.lend(new_id, RunGift(models, deps)):
            run, records = fork_run(crew, run_id, await self.journal.records(run_id), after, new_id)
            self.resources.require_supplied(new_id, crew, row.crew_sha, run.state.needs)
            await self._preflight.require_usable(crew, new_id)
            self._preflight.require_models(crew, new_id)
            fresh = msgspec.structs.replace(row, run=new_id, epoch=0, created_at=now, continues=run_id)
            await self.archive.add_run(row_of(run, fresh, now), seal_chain(new_id, records))
            await self.list_missing_questions()
            if self.runner.work.drives:
                await self.runner.recover(crew, new_id)
        return RunHandle(self, new_id)

    def run(self, run_id: str) -> RunHandle:
        """A handle of a run in this folder; using it raises `RunNotFound` if there is no such run."""
        self._require_open()
        require_text(run_id, "the id of a run")
        return RunHandle(self, run_id)

    async def result(self, run_id: str) -> Result:
        return await result_of(self.journal, run_id)

    async def usage(self, *, crew: str | None = None, since_ms: int = 0, step_ms: int = DAY_MS) -> CostReport:
        """The cost of runs by crew, agent and period: of those started since a time, of one crew or of all."""
        return await cost_report(self.store, crew=crew, since_ms=since_ms, step_ms=step_ms)

    def model_name(self, agent: AgentDefinition, run: str = "") -> str:
        """The model that is called for an agent; empty if a script or this program replies."""
        return self._models.name_for(agent, run)
