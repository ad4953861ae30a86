"""Opens and closes a store, its runner, and the parts that work on its runs."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from interlock.adapters.clock import SystemClock
from interlock.adapters.config.host_file import HostSettings
from interlock.adapters.config.host_secrets import host_secrets
from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.crash_points import crash_point
from interlock.adapters.cron import next_cron
from interlock.adapters.log.redacted_log import redact_logs
from interlock.adapters.models.given_models import GivenModels, ModelChoice, load_script
from interlock.adapters.tools.python_tools import PythonTool, PythonToolbox
from interlock.adapters.tools.redacting_tools import RedactingToolbox
from interlock.adapters.tools.tool_imports import import_tools
from interlock.adapters.value_types.output_validator import TypedOutputValidator
from interlock.compose.crews import AnyHost, settings_from
from interlock.compose.given.run_resources import RunResources
from interlock.compose.models import Models, model_named
from interlock.compose.orders import OrderDesk
from interlock.compose.preflight import Preflight, require_hooks, require_parts
from interlock.compose.questions import store_missing_questions
from interlock.compose.resume import RunResumer
from interlock.compose.run_starter import RunStarter
from interlock.compose.schedules import Schedules
from interlock.compose.signals import Signals
from interlock.compose.stores.homes import StoreName, home_of
from interlock.compose.stores.store_home import HostStore, OpenedHome
from interlock.compose.stores.store_url import DATA_FOLDER as DATA_FOLDER
from interlock.compose.stores.store_url import url_of
from interlock.compose.tools import HostTools
from interlock.compose.upkeep.observed_archive import ObservedArchive
from interlock.compose.upkeep.retention import TOMBSTONE_DAYS, Retention, RetentionSettings
from interlock.compose.working.admission import Admission
from interlock.compose.working.recovery import RunRecovery
from interlock.crew.definition import CrewDefinition
from interlock.engine.flow.parking import SET_ASIDE
from interlock.engine.state import RunState
from interlock.errors import DamagedRow, LeaseLost, OwnedElsewhere, RecordsMissing, UsageError
from interlock.ports import Clock, Delivery, Journal, Leaders, Leadership, Observer, Owners, RunFormat, RunRow
from interlock.ports.hooks import Hook
from interlock.runtime.calls.approvals import HostApprovals
from interlock.runtime.calls.external_signals import OnExternal
from interlock.runtime.calls.host_decisions import CheckReport, HostDecisions, SelectChildren
from interlock.runtime.calls.host_hooks import HostHooks
from interlock.runtime.calls.host_policies import HostPolicies
from interlock.runtime.claiming.claim_loop import ClaimLoop
from interlock.runtime.claiming.rebalance import Rebalance
from interlock.runtime.claiming.run_in_batch import require_known
from interlock.runtime.claiming.work import DEFAULT_WORK, WorkSettings
from interlock.runtime.lifecycle.leading import lead, work_together
from interlock.runtime.run_scheduler import RunScheduler
from interlock.runtime.runner import GivenAnswer, Runner, replay_run

# The name under which one process leads upkeep for all.
UPKEEP = "upkeep"

_log = logging.getLogger("interlock")


class OpenFolder:
    """A store, and the adapters and parts that work on its runs while it is open.

    `data` is a folder or the URL of a store, `store` a URL; without both it is `[store] url` of the host, or the folder
    `.interlock`.

    `host` is the path of an interlock.toml or a value of `load_host`. The modules that it names are imported at once,
    and its durability is used unless one is given.

    `models` and `script` reply in place of the models that crews name; `model` (`PROVIDER:NAME`) is called for every
    agent. `deps` are given to tools that ask for them (`ToolContext.deps`).

    With `recover` this process claims the runs that wait for a driver; `work` says how many, and of which crews.

    `hooks` see what goes into runs and what comes out of them, in their order; see `interlock.ports.hooks`.

    `select_children(task, ids)` and `check_report(task, report)` decide in place of a model where a crew's delegation
    says `select: model` or `report_check: model`.
    """

    def __init__(
        self,
        data: StoreName | None = None,
        *,
        store: str | None = None,
        host: AnyHost | None = None,
        tools: Sequence[PythonTool | Callable[..., Any]] = (),
        models: ModelChoice | None = None,
        script: str | os.PathLike[str] | None = None,
        model: str | None = None,
        deps: Any = None,
        on_external: OnExternal | None = None,
        observers: Sequence[Observer] = (),
        hooks: Sequence[Hook] = (),
        select_children: SelectChildren | None = None,
        check_report: CheckReport | None = None,
        recover: bool = False,
        work: WorkSettings = DEFAULT_WORK,
        durability: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        require_parts(data, store, tools, models)
        require_hooks(hooks)
        settings = settings_from(host)
        self.named = _store_named(data, store, settings)
        self.home = home_of(self.named)
        self.host_file = settings.file
        self.script, self.model = script, model
        self._approvals = settings.approvals
        self.clock = clock or SystemClock()
        self._host_hooks = HostHooks(hooks)
        self._connect_tools(_models_from(models, script, model, settings, self.clock), deps, tools, settings)
        self._known = KnownSecrets(secret.value for secret in host_secrets(settings, os.environ))
        self._models = Models(self.resources, self.clock, settings.provider_settings, self._known)
        self._preflight = Preflight(self._models, self.toolbox, self.resources, drives=work.drives)
        self._on_external, self._observers = on_external, observers
        self._judges = HostDecisions(select_children, check_report)
        self._recover, self._work = recover, _with_weights(work, settings)
        self._queued_max, self._retention = settings.limits.queued_runs, _retention_of(settings)
        self._durability = settings.durability if durability is None else durability
        self._stack = AsyncExitStack()

    def _connect_tools(
        self,
        models: GivenModels,
        deps: Any,
        tools: Sequence[PythonTool | Callable[..., Any]],
        settings: HostSettings,
    ) -> None:
        self.resources = RunResources(
            models,
            deps,
            PythonToolbox(tools).names,
            has_tool=lambda name: name in functions.names,
            asks_approval=lambda name: functions.needs_approval(name) or functions.has_approval_function(name),
            hooks=self._host_hooks.names,
        )
        functions = self.resources.toolbox_of([*tools, *import_tools(settings)])
        self.toolbox = HostTools(
            functions,
            settings.mcp,
            file=settings.file,
            tools_with=self.resources.tools_with,
            tools_of_crews=self.resources.tools_of_crews,
            approvals=settings.approvals,
        )

    store: HostStore
    signals: Signals
    schedules: Schedules
    # False for a process that only reads: it delivers no signals.
    _listens = True

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:  # what was opened so far is closed: nothing else would close it
            await self._stack.aclose()
            raise
        return self

    async def _open(self) -> None:
        self._known.add(*self.home.secrets())
        self._stack.enter_context(redact_logs(self._known))
        self._opened = opened = await self._open_store()
        self._known.add(*self.home.secrets())  # also those that the driver found by itself
        self.clock = opened.clock
        self._stack.push_async_callback(opened.close)
        self.store = store = opened.store
        self.archive = ObservedArchive(store)
        self.journal: Journal = store
        self.owners: Owners = store
        self.leaders: Leaders = opened.leaders
        self._stack.push_async_callback(self._models.close)
        self._stack.push_async_callback(self.toolbox.close)
        self.runner = await self._stack.enter_async_context(self._new_runner(opened))
        self.lease_lost = asyncio.Event()
        store.on_lost(self.lease_lost.set)
        self._assemble_commands()
        scheduler = RunScheduler(store, self.clock, self._starter.start_scheduled, next_cron, self._known.redact)
        if opened.views is not None:
            self.runner.hub.on_news = opened.views.on_commit
        self.schedules = Schedules(store, self.clock, scheduler.wake, self._known.redact)
        if self._listens and opened.views is not None:
            opened.views.on_commit()  # what a crash left behind
        await self.list_missing_questions()
        if self._listens:
            await self._warn_if_older(store)
        if self._recover:
            await store.announce_worker()
            await self._recovery.recover_all(self._claims, takes_private=self._work.takes_private)
            self._stack.callback(opened.bus.watch(scheduler.wake, "schedules"))
            self._run_until_closed(self.runner.external_sender.run())
            retention = Retention(self.archive, self.signals.bus, self.clock, self._retention)
            self._lead_until_closed(self._recovery.sweeper.run, scheduler.run, retention.run)
            self._run_until_closed(self._claims.run())
            self._run_until_closed(Rebalance(self.runner, self._claims, store, store.owner).run())

    async def _warn_if_older(self, store: HostStore) -> None:
        """Such a process begins and drives runs that all know, and leaves the others to newer ones."""
        begins: RunFormat | None = None
        with suppress(DamagedRow):  # a run that begins tells of it; those that are there continue
            begins = await store.run_format()
        if begins is not None and not store.knows.covers(begins):
            more = f"runs begin here with {begins}; this version knows {store.knows}, and drives only runs of those"
            _log.warning("%s: %s; upgrade Interlock here", self.home.name, more)

    def _lead_until_closed(self, *works: Callable[[Leadership], Coroutine[Any, Any, None]]) -> None:
        """Does what one process does for all: deadlines, schedules, retention."""

        self._run_until_closed(lead(self.leaders, self.clock, UPKEEP, lambda held: work_together(held, works)))

    def _new_runner(self, opened: OpenedHome) -> Runner:
        store = opened.store
        return Runner(
            journal=self.journal,
            owners=store,
            orders=opened.orders,
            budgets=store,
            outbox=store,
            leaders=opened.leaders,
            bus=opened.bus,
            deltas=opened.deltas,
            clock=opened.clock,
            model_for=self._models.model_for,
            costs=self._models.costs,
            server_of=self._models.server_for,
            toolbox=RedactingToolbox(self.toolbox, self._known),
            observers=self._observers,
            on_external=self._on_external,
            hook=crash_point,
            policies=HostPolicies(
                self._judges,
                HostApprovals(self._approvals.rules, store, self._approvals.deadline_ms),
                self._host_hooks,
                TypedOutputValidator(self.resources.output_type_for),
            ),
            start_for=self._start_for_delivery if self._recover else None,
            listens=self._listens,
            redactor=self._known,
            supplies=self.resources,
            work=self._work,
            processes=store,
        )

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def _assemble_commands(self) -> None:
        """Makes the parts that carry out what users ask for."""
        self.signals = Signals(self.runner.hub, self.clock, self._known, self.runner.crews.of)
        self._desk = OrderDesk(self.runner)
        self._recovery = RunRecovery(
            self.runner, self.store, self._preflight, resume=self._resume_run, in_background=self._run_until_closed
        )
        self._claims = ClaimLoop(self.runner, self._recovery.recover_waiting)
        self._resumer = RunResumer(
            self.runner,
            self._desk,
            self._preflight,
            self._known,
            state_of=self.state,
            recover_tree=self._recovery.recover_tree,
        )
        self._starter = RunStarter(
            self.runner,
            self.signals,
            self._preflight,
            self._known,
            self.resources,
            Admission(self.store, self._queued_max),
            continue_run=self._continue_started,
        )

    async def _continue_started(self, row: RunRow) -> None:
        """Continues a run that was started before, if no process drives it; a parked one stays parked."""
        if row.reason == SET_ASIDE and row.status == "paused":
            await self._resume_run(row.run)
        elif row.status == "running" and not await self._desk.is_driven_elsewhere(row.run):
            with suppress(OwnedElsewhere):  # another process was first
                await self._recovery.recover_tree(row.run)

    async def _resume_run(self, run_id: str) -> None:
        await self._resumer.resume(run_id, GivenAnswer(), continues_parked=True)

    async def _start_for_delivery(self, delivery: Delivery) -> None:
        await self._starter.start_for_delivery(delivery)

    def _run_until_closed(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(_log_failure)

        async def stop() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(stop)

    def require_lease(self) -> None:
        """`LeaseLost` if other processes may drive the runs of this one."""
        if self.lease_lost.is_set():
            raise LeaseLost(self.home.name)

    def _require_open(self) -> None:
        if not hasattr(self, "runner"):
            raise UsageError("use it as 'async with Interlock(...) as box'; the data folder is not open")

    def find_missing_records(self) -> RecordsMissing | None:
        """The acknowledged records that the store lacks, if that keeps it from being opened. It need not be open."""
        return self.home.find_missing_records() if self._durability == "full" else None

    async def _open_store(self) -> OpenedHome:
        return await self.home.open(self._durability, self.clock)

    def store_version(self) -> int | None:
        """A number that changes when another process has committed anything; None while it is unknown."""
        return self._opened.version()

    @property
    def store_warnings(self) -> Sequence[str]:
        """What is not as safe as it could be, of a store that is open."""
        return self._opened.warnings

    @property
    def data(self) -> Path:
        """The data folder; `UsageError` if the store is not in one."""
        if self.home.folder is None:
            raise UsageError(f"{self.home.name} is not a data folder")
        return self.home.folder

    async def list_missing_questions(self) -> None:
        """Rebuilds question lists that are missing or damaged; usually there are none."""
        await store_missing_questions(self.store, self.crew_of)

    async def state(self, run_id: str) -> RunState:
        """The state of a run, replayed from its journal; raises `JournalDiverged` if a replay differs.

        `HostLacks` if a newer version began it.
        """
        row = await self.journal.row(run_id)
        require_known(row, self.store.knows)
        return replay_run(await self.crew_of(row), run_id, await self.journal.records(run_id)).state

    async def crew_of(self, row: RunRow) -> CrewDefinition:
        """The crew as it was when the run started, not as its files are today."""
        return await self.runner.crews.of(row.crew_sha)


def _log_failure(task: "asyncio.Task[None]") -> None:
    """Without this, runs would wait for a task that a bug has ended, and nothing would tell why."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("a background task has failed; restart the process", exc_info=error)


def _store_named(data: StoreName | None, store: str | None, settings: HostSettings) -> StoreName:
    """The store that the arguments name, or the settings of the host."""
    if data is not None and store is not None:
        raise UsageError("data and store both name the store; give one of them")
    named = data if data is not None else store
    return named or url_of(settings.store, f"{settings.file}: store.url") or DATA_FOLDER


def _with_weights(work: WorkSettings, settings: HostSettings) -> WorkSettings:
    """Those of the host, unless the work has its own."""
    return work if work.weights else msgspec.structs.replace(work, weights=settings.worker.weights)


def _retention_of(settings: HostSettings) -> RetentionSettings:
    return RetentionSettings(
        days=settings.retention_days,
        broadcast_days=settings.broadcast_days,
        tombstone_days=TOMBSTONE_DAYS if settings.tombstone_days is None else settings.tombstone_days,
    )


def _models_from(
    models: ModelChoice | None,
    script: str | os.PathLike[str] | None,
    model: str | None,
    settings: HostSettings,
    clock: Clock,
) -> GivenModels:
    return GivenModels(
        models,
        script=load_script(script, clock) if script is not None else None,
        model=model_named(model, settings.provider_settings) if model is not None else None,
    )
