"""One process, one folder: the adapters that serve it."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from interlock.adapters.bus_sqlite import SqliteBus
from interlock.adapters.clock import SystemClock
from interlock.adapters.crash_points import crash_point
from interlock.adapters.cron import next_cron
from interlock.adapters.data_folder import lost_records
from interlock.adapters.host_secrets import folder_secrets, host_secrets
from interlock.adapters.journal_format import sealed_chain
from interlock.adapters.models.known_keys import KnownKeys
from interlock.adapters.order_book_sqlite import SqliteOrders
from interlock.adapters.redacted_log import redacted_log
from interlock.adapters.store_sqlite import SqliteStore
from interlock.adapters.tool_imports import imported_tools
from interlock.adapters.tools_hiding import HidingToolbox
from interlock.adapters.tools_python import PythonTool, PythonToolbox
from interlock.adapters.view_keeper import ViewKeeper
from interlock.broadcast.naming import derived_id
from interlock.broadcast.run_schedules import RunSchedule
from interlock.compose.crews import AnyHost, settings_from
from interlock.compose.fitness import (
    require_context,
    require_crew,
    require_drivable,
    require_name,
    require_no_key,
    require_run_id,
    require_size,
    require_text,
)
from interlock.compose.models import AnyModel, Models
from interlock.compose.orders import OrderDesk
from interlock.compose.questions import list_unlisted, open_questions, runs_with_deadlines, token_of
from interlock.compose.recovery import SetAside, outcome_of, recover_all
from interlock.compose.results import Result as Result
from interlock.compose.results import result_of
from interlock.compose.retention import TOMBSTONE_DAYS, Retention, RetentionSettings
from interlock.compose.schedules import Schedules
from interlock.compose.signals import Signals
from interlock.compose.tools import HostTools
from interlock.compose.usage import DAY_MS, Spent, spent_in
from interlock.crew.definition import Agent, Crew
from interlock.engine.events import NO_CONTEXT, CrewContext, Entry, MessageGiven
from interlock.engine.parking import PARKED, SET_ASIDE
from interlock.engine.state import RunState
from interlock.engine.step import OVER
from interlock.errors import (
    AlreadyResumed,
    InterlockError,
    NotWaiting,
    OwnedElsewhere,
    RecordsMissing,
    RunNotFound,
    UsageError,
)
from interlock.ids import parent_of, root_of
from interlock.ports import (
    Clock,
    Delivery,
    Journal,
    Keeping,
    KeepingTrees,
    Observer,
    OpenQuestion,
    Order,
    Owners,
    RunRow,
)
from interlock.runtime.delivery import OnExternal
from interlock.runtime.forking import forked
from interlock.runtime.holding import while_away
from interlock.runtime.judging import CheckReport, Judges, SelectChildren
from interlock.runtime.ordering import CANCEL, MESSAGE, RESUME, message_body, resume_body
from interlock.runtime.run_scheduler import RunScheduler
from interlock.runtime.runner import GivenAnswer, Runner, replayed, row_of
from interlock.runtime.watching import Public
from interlock.signals.registry import SignalRegistry

DATA_FOLDER = ".interlock"

# Who asks for what a program that holds an `Interlock` does.
BY_HOST = "host"


class RunHandle:
    """A run that was asked for; it goes on whether or not anybody looks."""

    def __init__(self, box: "Interlock", run_id: str) -> None:
        self._box, self.id = box, run_id

    def __repr__(self) -> str:
        return f"<run {self.id} in {self._box.data}>"

    def events(self, after: int = 0) -> AsyncIterator[Public]:
        """What has happened and what happens, until the run is over or paused."""
        return self._box.runner.follow(self.id, after)

    async def result(self) -> Result:
        """How the run stands once it is over or paused, wherever it is driven."""
        await self._box.runner.settled_anywhere(self.id)
        return await self._box.result(self.id)


class Interlock:
    """One process, one folder: starts runs, resumes them, and lets them be watched."""

    def __init__(
        self,
        data: str | os.PathLike[str] = DATA_FOLDER,
        *,
        host: AnyHost | None = None,
        tools: Sequence[PythonTool | Callable[..., Any]] = (),
        models: AnyModel | Mapping[str, AnyModel] | None = None,
        script: str | os.PathLike[str] | None = None,
        on_external: OnExternal | None = None,
        observers: Sequence[Observer] = (),
        select_children: SelectChildren | None = None,
        check_report: CheckReport | None = None,
        recover: bool = False,
        durability: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`host` is the path of an interlock.toml, or what `load_host` gives: the modules that it names are imported
        now, and its durability counts unless one is given.

        `select_children(task, ids)` and `check_report(task, report)` decide in place of a model where a crew's
        delegation says `select: model` or `report_check: model`.
        """
        settings = settings_from(host)
        self.data, self.host_file = Path(data), settings.file
        self.toolbox = HostTools(PythonToolbox([*tools, *imported_tools(settings)]), settings.mcp)
        self.clock = clock or SystemClock()
        self._known = KnownKeys(secret.value for secret in host_secrets(settings, os.environ))
        self._models = Models(models, script, self.clock, settings.provider_settings, self._known)
        self._on_external, self._observers = on_external, observers
        self._judges = Judges(select_children, check_report)
        self._recover = recover
        self._retention = RetentionSettings(
            days=settings.retention_days,
            broadcast_days=settings.broadcast_days,
            tombstone_days=TOMBSTONE_DAYS if settings.tombstone_days is None else settings.tombstone_days,
        )
        self._durability = settings.durability if durability is None else durability
        self._stack = AsyncExitStack()

    store: SqliteStore
    keeping: Keeping
    trees: KeepingTrees
    signals: Signals
    schedules: Schedules
    # Whether this process dispatches and delivers signals, rather than looks.
    _listens = True

    async def __aenter__(self) -> Self:
        self._known.add(*(secret.value for secret in folder_secrets(self.data)))
        self._stack.enter_context(redacted_log(self._known))
        store = self._opened_store()
        self._stack.push_async_callback(store.close)
        self.store, self.keeping, self.trees = store, store, store
        self.journal: Journal = store
        self.owners: Owners = store
        keeper = ViewKeeper(store)
        self._stack.callback(keeper.stop)
        self._stack.push_async_callback(self._models.close)
        self._stack.push_async_callback(self.toolbox.close)
        self.runner = await self._stack.enter_async_context(
            Runner(
                journal=self.journal,
                owners=self.owners,
                orders=SqliteOrders(store),
                budgets=store,
                outbox=store,
                bus=SqliteBus(store),
                clock=self.clock,
                model_for=self._models.model_for,
                cost_of=self._models.cost_of,
                toolbox=HidingToolbox(self.toolbox, self._known),
                observers=self._observers,
                on_external=self._on_external,
                hook=crash_point,
                judges=self._judges,
                start_for=self._start_for if self._recover else None,
                listens=self._listens,
                redactor=self._known,
            )
        )
        self._desk = OrderDesk(self.runner)
        scheduler = RunScheduler(store, self.clock, self._start_scheduled, next_cron, self._known.hidden)
        self.runner.board.on_news = _both(keeper.notice, scheduler.wake)
        self.signals = Signals(self.runner.board, self.clock, self._known, self.runner.crews.of)
        self.schedules = Schedules(store, self.clock, scheduler.wake, self._known.hidden)
        if self._listens:
            keeper.notice()  # what a crash left behind
        await self.list_missing_questions()
        if self._recover:
            await self._recover_all()
            self._run_until_closed(scheduler.run())
            self._run_until_closed(Retention(store, self.signals.bus, self.clock, self._retention).run())
        return self

    def _run_until_closed(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(stop)

    def _require_open(self) -> None:
        if not hasattr(self, "runner"):
            raise UsageError("use it as 'async with Interlock(...) as box'; the data folder is not open")

    def what_is_missing(self) -> RecordsMissing | None:
        """What the folder, which need not be open, lacks of what it has acknowledged, if that keeps it closed."""
        return lost_records(self.data) if self._durability == "full" else None

    def _opened_store(self) -> SqliteStore:
        return SqliteStore(self.data, durability=self._durability)

    async def list_missing_questions(self) -> None:
        """Lists what runs ask whose list came in without it, or was damaged; usually there is none."""
        await list_unlisted(self.store, self.crew_of)

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def _recover_all(self) -> None:
        self._note_aside(*await self._recover_each(self._resume_row, status="paused", reason=SET_ASIDE))
        self._note_aside(*await self._recover_each(self._recover_or_set_aside))
        await self._remind_all()
        await self.runner.deliver_again()

    async def _recover_each(self, go_on: Callable[[RunRow], Awaitable[None]], **which: str) -> tuple[SetAside, ...]:
        def try_later(row: RunRow) -> None:
            self._run_until_closed(self._recover_later(row, go_on))

        return await recover_all(self.journal, go_on, try_later, **which)

    async def _recover_later(self, row: RunRow, go_on: Callable[[RunRow], Awaitable[None]]) -> None:
        """The store was away when the run was to be recovered."""
        aside = await while_away(self.clock, lambda: outcome_of(row, go_on))
        if aside is not None:
            self._note_aside(aside)

    def _note_aside(self, *aside: SetAside) -> None:
        for each in aside:
            self.runner.supervisor.note_aside(each.run, each.reason)

    async def _recover_or_set_aside(self, row: RunRow) -> None:
        crew = await self.crew_of(row)
        try:
            await self._require_runnable(crew, row.run)
        except InterlockError as hindrance:
            await self.runner.set_aside(row.run, str(hindrance))
            raise
        await self._recovered(crew, row.run)

    async def _resume_row(self, row: RunRow) -> None:
        await self.resume(row.run)

    async def _remind_all(self) -> None:
        """Deadlines of questions that nobody has answered are kept again, also where a run rests."""
        for run_id in await runs_with_deadlines(self.store, self.crew_of):
            if run_id not in self.runner.live:
                with suppress(OwnedElsewhere, RunNotFound):
                    await self.runner.deadlines.remind(run_id)

    async def _start_for(self, delivery: Delivery) -> None:
        """A run that starts at an agent, with the broadcast that it is to act on as input."""
        sha = await self.signals.bus.crew_sha(delivery.crew)
        if not sha:
            raise UsageError(f"no file of crew '{delivery.crew}' is known here; start a run of it once")
        crew = await self.runner.crews.of(sha)
        if delivery.agent not in crew.agent_ids:
            raise UsageError(f"the newest file of crew '{delivery.crew}' has no agent '{delivery.agent}'")
        self.runner.crews.require_proven(crew, sha)
        await self._require_usable(crew)
        self._require_models(crew)
        name = derived_id(f"{delivery.heard.broadcast.id}:{delivery.crew}:{delivery.agent}:{delivery.number}")
        run_id = f"{delivery.heard.broadcast.created_at:012x}{name[:8]}"
        await self.runner.start_for(crew, sha, delivery, run_id)

    async def _start_scheduled(self, schedule: RunSchedule, run_id: str) -> None:
        """The run of one occurrence, with the newest file of the crew that is known in this folder."""
        sha = await self.signals.bus.crew_sha(schedule.crew)
        if not sha:
            raise UsageError(f"no file of crew '{schedule.crew}' is known here; serve it, or start a run of it once")
        crew = await self.runner.crews.of(sha)
        await self._start(crew, schedule.input, run_id, schedule=schedule.id)

    async def _require_runnable(self, crew: Crew, run_id: str) -> None:
        await self._require_usable(crew, run_id)
        self._require_models(crew, run_id)

    async def _recovered(self, crew: Crew, run_id: str) -> None:
        await self._require_runnable(crew, run_id)
        try:
            await self.runner.recover(crew, run_id)
        except Exception:
            await self.owners.release(run_id)  # what cannot go on here may go on elsewhere
            raise

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """Runs that cannot be driven here: those found so at the start, and those that failed since."""
        aside = self.runner.supervisor.aside if hasattr(self, "runner") else {}
        return tuple(SetAside(run=run, reason=reason) for run, reason in aside.items())

    def watch(self, observer: Observer, on_delta: Callable[[Public], None] | None = None) -> None:
        """From now on these are told of every record that is stored, and of every piece of a reply."""
        self._require_open()
        self.runner.observers = (*self.runner.observers, observer)
        if on_delta is not None:
            self.runner.watchers.ears.append(on_delta)

    def registry_of_run(self, run_id: str) -> SignalRegistry | None:
        """The signals of the crew of a run, while this process drives it."""
        live = self.runner.live.get(run_id)
        return live.run.table.registry if live is not None else None

    def known_keys(self) -> KnownKeys:
        """The secrets that must not be stored or shown; whoever learns of another one adds it."""
        return self._known

    # Asking

    async def start(
        self, crew: Crew, text: str, *, run_id: str | None = None, context: CrewContext = NO_CONTEXT, by: str = ""
    ) -> RunHandle:
        """Starts a run; `by` is who asks for it, and is kept in its journal."""
        return await self._start(crew, text, self._id_for(run_id), context=context, by=by)

    def _id_for(self, run_id: str | None) -> str:
        """The id that was asked for, if a run may have it, or a new one."""
        if run_id is None:
            return new_run_id(self.clock)
        require_run_id(run_id)
        return run_id

    async def listen(self, crew: Crew) -> None:
        """The agents of the crew hear from now on what its file subscribes them to, also when nothing of it runs.

        What is not silent starts runs of it, if this host was opened with `recover`.
        """
        self._require_open()
        form = self.runner.crews.proven_form(crew)
        for each in crew.whole_tree():
            require_drivable(each)
        await self._require_usable(crew)
        await self.runner.crews.keep(form)
        await self.signals.declare(form.crew, form.sha)

    async def schedule_runs(self, crew: Crew, text: str, **when: Any) -> RunSchedule:
        """Plans runs of a crew; `when` is as for `schedules.add`. The runs use the newest file known of that crew."""
        self._require_open()
        require_crew(crew)
        require_text(text, "the input of a run")
        require_size(crew, text)
        form = self.runner.crews.proven_form(crew)
        await self.runner.crews.keep(form)
        await self.signals.declare(form.crew, form.sha)
        return await self.schedules.add(crew.name, text, **when)

    async def continue_run(
        self, crew: Crew, text: str, finished: str, *, run_id: str | None = None, by: str = ""
    ) -> RunHandle:
        """A new run that starts from the history of a finished one."""
        row = await self.journal.row(finished)
        if row.status in ("running", "paused"):
            raise UsageError(f"run '{finished}' is {row.status}; only a finished run can be continued")
        before = replayed(await self.crew_of(row), finished, await self.journal.records(finished))
        history = tuple(before.state.history)
        return await self._start(crew, text, self._id_for(run_id), history=history, continues=finished, by=by)

    async def _start(
        self,
        crew: Crew,
        text: str,
        run_id: str,
        *,
        history: tuple[Entry, ...] = (),
        continues: str = "",
        context: CrewContext = NO_CONTEXT,
        schedule: str = "",
        by: str = "",
    ) -> RunHandle:
        self._require_open()
        require_crew(crew)
        require_text(text, "the input of a run")
        require_name(by)
        form = self.runner.crews.proven_form(crew)
        for each in crew.whole_tree():
            require_drivable(each)
        await self._require_usable(crew)
        require_size(crew, text)
        require_context(context)
        self._require_models(crew)
        text = self._known.hidden(text)
        for each in crew.whole_tree():
            require_no_key(each, self._known)
        await self.runner.crews.keep(form)
        await self.signals.declare(form.crew, form.sha)
        await self.runner.start(
            form.crew,
            form.sha,
            text,
            run_id=run_id,
            history=history,
            continues=continues,
            context=context,
            schedule=schedule,
            by=by,
        )
        return RunHandle(self, run_id)

    def _require_models(self, crew: Crew, run_id: str = "") -> None:
        """Whether somebody answers for every agent: a run of which nobody can go on is not touched."""
        for each in crew.whole_tree():
            self._models.require_named(each, run_id)

    async def _require_usable(self, crew: Crew, run_id: str = "") -> None:
        """Whether all models and tools are there that the crew, and those that it calls, name."""
        for each in crew.whole_tree():
            self._models.require_reachable(each, run_id)
            await self.toolbox.require(each, run_id)

    async def resume(self, run_id: str, text: str = "", *, token: str | None = None, by: str = "") -> RunHandle:
        """Answers a wait, or continues a parked run; `by` is who does so, and is kept in its journal.

        The same answer again gives the first outcome; another one is refused.
        """
        return await self._resume(run_id, GivenAnswer(token, text, by), continues_parked=True)

    async def park(self, run_id: str) -> bool:
        """Lets a run that this process drives rest until `resume`; whether it rests for that now."""
        self._require_open()
        return await self.runner.park(run_id, by=BY_HOST)

    async def park_all(self) -> None:
        """Lets every run that this process drives rest until `resume`."""
        self._require_open()
        await self.runner.park_all(by=BY_HOST)

    def leave_at_once(self) -> None:
        """The process ends without waiting for what it was asked to do: what is not stored is redone by recovery."""
        self._require_open()
        self.runner.leaving_max_ms = 0

    async def resume_parked(self) -> tuple[SetAside, ...]:
        """Continues every parked run of the folder; gives those that cannot continue here, with the reason."""
        self._require_open()

        return await self._recover_each(self._resume_row, status="paused", reason=PARKED)

    async def _resume(self, run_id: str, given: GivenAnswer, *, continues_parked: bool) -> RunHandle:
        self._require_open()
        require_text(run_id, "the id of a run")
        require_text(given.text, "an answer")
        require_name(given.by)
        given = given._replace(text=self._known.hidden(given.text))
        text, token = given.text, given.token
        row = await self.journal.row(run_id)
        require_size(await self.crew_of(row), text)
        answers = bool(text) or token is not None or row.status != "running"
        elsewhere = await self._desk.is_driven_elsewhere(run_id)
        if elsewhere and not answers:  # it is running, and nothing more is asked
            return RunHandle(self, run_id)
        if elsewhere and token is None:
            given = given._replace(token=await self._only_token(run_id, text))
        body = resume_body(given.token, text, continues_parked=continues_parked)

        async def resume_here(order: str) -> str:
            await self._resume_here(run_id, given, answers, continues_parked, order)
            return ""

        try:
            await self._desk.ensure(self._order(run_id, RESUME, body, by=given.by), resume_here)
        except AlreadyResumed as again:
            if not again.same:
                raise
        except NotWaiting as refusal:
            if token is not None or row.status not in OVER:
                raise
            raise NotWaiting(run_id, None, [], because=_how_it_ended(row)) from refusal
        return RunHandle(self, run_id)

    async def _only_token(self, run_id: str, text: str) -> str | None:
        """What an answer without a token answers: the only wait that is open; nothing of a parked run."""
        state = await self.state(run_id)
        waits = [wait.token for wait in state.waits]
        if state.parked and not text:
            return None
        if len(waits) != 1:
            raise NotWaiting(run_id, None, waits)
        return waits[0]

    async def _resume_here(
        self, run_id: str, given: GivenAnswer, answers: bool, continues_parked: bool, order: str
    ) -> None:
        row = await self.journal.row(run_id)
        crew = await self.crew_of(row)
        if row.status in ("running", "paused"):
            await self._require_runnable(crew, run_id)
        if row.status == "running" and run_id not in self.runner.live:
            if answers and given.token is None and not (await self.state(run_id)).waits:
                raise NotWaiting(run_id, None, [])
            await self._recover_tree(run_id)
        if answers:
            await self.runner.resume(crew, run_id, given, continues_parked=continues_parked, order=order)

    def _order(self, run_id: str, kind: str, body: bytes = b"", *, by: str = BY_HOST) -> Order:
        now = self.clock.now_ms()
        return Order(key=f"{now:012x}{secrets.token_hex(8)}", run=run_id, kind=kind, body=body, by=by, at=now)

    async def answer(self, question: str, text: str, *, by: str = "") -> RunHandle:
        """Answers a question by the id of its message, or a wait by its token. One answer counts.

        A parked run takes the answer in and stays parked.

        The same answer again gives the first outcome, another one is refused (`AlreadyResumed`).
        """
        self._require_open()
        run_id = question.rpartition(":")[0]
        if not run_id:
            raise UsageError(f"'{question[:80]}' is no question's id; 'interlock runs questions' lists those there are")
        try:
            token = token_of(await self.state(run_id), question)
            return await self._resume(run_id, GivenAnswer(token, text, by), continues_parked=False)
        except AlreadyResumed as error:  # by the name that whoever answers knows
            raise AlreadyResumed(run_id, question, same=error.same) from error

    async def questions(self) -> list[OpenQuestion]:
        """What people are asked in this folder, the oldest first."""
        self._require_open()
        return (await open_questions(self.store, self.crew_of))[0]

    async def _recover_tree(self, run_id: str) -> None:
        """A child goes on with whoever called it."""
        root = await self.journal.row(root_of(run_id))
        await self._recovered(await self.crew_of(root), root.run)

    async def send_message(
        self,
        run_id: str,
        type: str,  # noqa: A002 - the contract's name
        to: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str = "",
    ) -> str:
        """Sends a message of a type that this program registered to an agent of a run; gives the message's id.

        `BadMessage` for an unknown type, a body that does not fit, and an agent that may not get it. What is sent
        twice under the same `key` is sent once. An answer is an ANSWER in the run's events.
        """
        self._require_open()
        if self._known.hidden(key) != key:
            raise UsageError("the key of a message holds a secret of this host, and would be stored; choose another")
        row = await self.journal.row(run_id)
        given = MessageGiven(kind=type, to=to, body=dict(body or {}), key=key)
        crew = await self.crew_of(row)

        async def send_here(order: str) -> str:
            return await self.runner.send_message(crew, run_id, given, order=order)

        return await self._desk.ensure(self._order(run_id, MESSAGE, message_body(given)), send_here)

    async def cancel(self, run_id: str, *, by: str = BY_HOST) -> RunHandle:
        """Ends a run, wherever it is driven; that it is to end, and by whom, is stored when this returns."""
        require_name(by)
        row = await self.journal.row(run_id)
        crew = await self.crew_of(row)

        async def cancel_here(order: str) -> str:
            await self.runner.cancel(crew, run_id, by=by, order=order)
            return ""

        if row.status in ("running", "paused"):
            await self._desk.ensure(self._order(run_id, CANCEL, by=by), cancel_here)
        return RunHandle(self, run_id)

    async def fork(self, run_id: str, after: int, *, new_id: str | None = None) -> RunHandle:
        """A new run that shares the recorded past of another one up to a seq, and goes on from there.

        What crews that were called have said and cost is in that past; their runs stay with the original.
        """
        if parent_of(run_id):
            root = root_of(run_id)
            raise UsageError(f"run '{run_id}' is part of run '{root}' and has bounds of its callers; fork '{root}'")
        row = await self.journal.row(run_id)
        crew, new_id, now = await self.crew_of(row), self._id_for(new_id), self.clock.now_ms()
        self.runner.crews.require_proven(crew, row.crew_sha)
        await self._require_usable(crew)
        run, records = forked(crew, run_id, await self.journal.records(run_id), after, new_id)
        self._require_models(crew)
        fresh = msgspec.structs.replace(row, run=new_id, epoch=0, created_at=now, continues=run_id)
        await self.keeping.add(row_of(run, fresh, now), sealed_chain(new_id, records))
        await self.list_missing_questions()
        await self.runner.recover(crew, new_id)
        return RunHandle(self, new_id)

    def run(self, run_id: str) -> RunHandle:
        """A handle of a run in this folder, wherever it is driven; using it raises `RunNotFound` if there is none."""
        self._require_open()
        require_text(run_id, "the id of a run")
        return RunHandle(self, run_id)

    async def result(self, run_id: str) -> Result:
        return await result_of(self.journal, run_id)

    async def usage(self, *, crew: str | None = None, since_ms: int = 0, step_ms: int = DAY_MS) -> Spent:
        """What runs have cost by crew and agent, also over time: those started since then, of one crew or of all."""
        return await spent_in(self.store, crew=crew, since_ms=since_ms, step_ms=step_ms)

    async def state(self, run_id: str) -> RunState:
        """The run as its journal tells it; `JournalDiverged` if the engine would now conclude otherwise."""
        row = await self.journal.row(run_id)
        return replayed(await self.crew_of(row), run_id, await self.journal.records(run_id)).state

    def model_name(self, agent: Agent) -> str:
        """The model that is called for an agent; nothing where a script or this program answers."""
        return self._models.name_for(agent)

    async def crew_of(self, row: RunRow) -> Crew:
        """The crew as it was when the run started, never the files of today."""
        return await self.runner.crews.of(row.crew_sha)


def _how_it_ended(row: RunRow) -> str:
    when = datetime.fromtimestamp(row.updated_at / 1000, UTC)
    return f"it {'was ' if row.status == 'cancelled' else ''}{row.status} at {when:%Y-%m-%d %H:%M} UTC"


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


def new_run_id(clock: Clock) -> str:
    """Sortable by time; chosen before the run starts, so that whoever asked twice can say so."""
    return f"{clock.now_ms():012x}{secrets.token_hex(4)}"
