"""Commands to runs: start, answer, message, cancel, park, recover.

Rule 1: a command that has started is completed, even if its caller disappears.
Rule 2: a command claims the run it is for, under the lock of the run.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from typing import Any

import msgspec

from interlock.crew.definition import CrewDefinition
from interlock.engine.events import NO_CONTEXT, NO_NEEDS, CrewContext, Entry, HostNeeds, MessageGiven, RunStarted
from interlock.engine.kinds import HookPoint, RunStatus
from interlock.engine.routing.decision import RoutingTable
from interlock.engine.run import RULES, Run
from interlock.errors import NotOwner
from interlock.messages.host_types import message_types
from interlock.ports import (
    Bus,
    Clock,
    Delivery,
    Deltas,
    Journal,
    Leaders,
    Observer,
    Orders,
    Outbox,
    Processes,
    RunBudgets,
    RunOwners,
    RunRow,
    Toolbox,
)
from interlock.runtime.broadcasts import BroadcastHub
from interlock.runtime.calls.costs import CostOfRun
from interlock.runtime.calls.effects import EffectRunner, UnstartedEffects
from interlock.runtime.calls.external_signals import ExternalSender, OnExternal
from interlock.runtime.calls.hook_checks import judge_input
from interlock.runtime.calls.host_policies import NO_POLICIES, HostPolicies
from interlock.runtime.calls.model_calls import Hook, ModelFor
from interlock.runtime.calls.storable import as_storable
from interlock.runtime.claiming.run_formats import RunFormats
from interlock.runtime.claiming.work import DEFAULT_WORK, WorkSettings
from interlock.runtime.commit import Committer
from interlock.runtime.commit import row_of as row_of
from interlock.runtime.following import Following
from interlock.runtime.lifecycle.answers import Answers
from interlock.runtime.lifecycle.broadcast_delivery import BroadcastDelivery, StartFor
from interlock.runtime.lifecycle.cancellation import Cancellation
from interlock.runtime.lifecycle.children import Children
from interlock.runtime.lifecycle.deadlines import QuestionDeadlines
from interlock.runtime.lifecycle.host_messages import HostMessages
from interlock.runtime.lifecycle.leading import LeadershipOnDemand
from interlock.runtime.lifecycle.parking import Parking
from interlock.runtime.lifecycle.resumption import Resumption
from interlock.runtime.lifecycle.set_asides import SetAsideList
from interlock.runtime.lifecycle.supervisor import Supervisor
from interlock.runtime.lifecycle.tracked_tasks import TrackedTasks
from interlock.runtime.live_runs import LiveRuns
from interlock.runtime.orders import GivenAnswer as GivenAnswer
from interlock.runtime.orders import OrderTaker
from interlock.runtime.provider_holds import ServerOf, server_of_agent
from interlock.runtime.redaction import Redactor
from interlock.runtime.replay import replay_run as replay_run
from interlock.runtime.scheduler import BroadcastScheduler
from interlock.runtime.stored_crews import StoredCrews
from interlock.runtime.supplies import EVERY_SUPPLY, RunSupplies
from interlock.runtime.timers import Timers
from interlock.runtime.watchers import PublicEvent, Watchers


class Runner:
    """Carries out commands, and connects the parts that drive the runs of this process.

    `start_for` starts a run for an agent that is to act on a broadcast; `listens` is False where no broadcast is
    received; `redactor` removes the secrets of the host from incoming events.
    """

    # How long a process that closes waits for commands in progress: a start, an answer, a park.
    leaving_max_ms = 5_000

    def __init__(
        self,
        *,
        journal: Journal,
        owners: RunOwners,
        orders: Orders,
        budgets: RunBudgets,
        outbox: Outbox,
        leaders: Leaders,
        bus: Bus,
        deltas: Deltas,
        clock: Clock,
        model_for: ModelFor,
        toolbox: Toolbox,
        observers: Sequence[Observer] = (),
        on_external: OnExternal | None = None,
        hook: Hook | None = None,
        costs: CostOfRun | None = None,
        server_of: ServerOf = server_of_agent,
        policies: HostPolicies = NO_POLICIES,
        start_for: StartFor | None = None,
        listens: bool = True,
        redactor: Redactor | None = None,
        supplies: RunSupplies = EVERY_SUPPLY,
        work: WorkSettings = DEFAULT_WORK,
        processes: Processes | None = None,
    ) -> None:
        self.journal, self.owners, self.orders, self.clock, self.leaders = journal, owners, orders, clock, leaders
        self.timers, self.external_sender = Timers(clock), ExternalSender(outbox, owners, clock, on_external)
        self.hub, self.watchers = BroadcastHub(bus, clock), Watchers(self.timers, deltas)
        self._formats, self._listens, self.work, self.host_hooks = RunFormats(processes), listens, work, policies.hooks
        self.effect_runner = (EffectRunner if work.drives else UnstartedEffects)(
            clock=clock,
            model_for=model_for,
            toolbox=toolbox,
            watchers=self.watchers,
            budgets=budgets,
            calls_max=work.calls_max,
            hook=hook,
            costs=costs,
            policies=policies,
            hub=self.hub,
            server_of=server_of,
        )
        self._connect_committer(observers, redactor)
        self._connect_live_runs(start_for, supplies)

    def _connect_committer(self, observers: Sequence[Observer], redactor: Redactor | None) -> None:
        self.crews, self._tasks = StoredCrews(self.journal), TrackedTasks(self.clock)
        self.committer = Committer(
            journal=self.journal,
            clock=self.clock,
            hub=self.hub,
            effect_runner=self.effect_runner,
            external_sender=self.external_sender,
            watchers=self.watchers,
            observers=observers,
            redactor=redactor,
            reads_inboxes=self._listens,
            owns_new=self.work.drives,
        )

    def _connect_live_runs(self, start_for: StartFor | None, supplies: RunSupplies) -> None:
        journal, owners, clock, committer = self.journal, self.owners, self.clock, self.committer
        self.set_asides = SetAsideList(owners, clock)
        self._delayed = LeadershipOnDemand(self.leaders, clock, "delayed", self.hub.wanted.set)
        self.supervisor = Supervisor(clock, self._recover_failed, self._end_failed, self.set_asides)
        self.order_taker = OrderTaker(
            self, orders=self.orders, journal=journal, crews=self.crews, bus=self.hub.bus, clock=clock, work=self.work
        )
        self.live_runs = runs = LiveRuns(
            journal=journal,
            owners=owners,
            clock=clock,
            crews=self.crews,
            hub=self.hub,
            watchers=self.watchers,
            committer=committer,
            model_calls=self.effect_runner.model_calls,
            supervisor=self.supervisor,
            supplies=supplies,
            on_claimed=self.order_taker.wake,  # the last driver may have left orders behind
            knows=self._formats.knows,
            work=self.work,
        )
        self.live, self.drivers = runs.runs, runs.drivers
        self.following = Following(journal, owners, self._formats.processes, clock, runs, self.watchers)
        self.resumption = resumption = Resumption(
            live_runs=runs,
            committer=committer,
            effect_runner=self.effect_runner,
            external_sender=self.external_sender,
            hub=self.hub,
        )
        self._parking = Parking(runs, committer, resumption)
        self._delivery = BroadcastDelivery(
            journal=journal, owners=owners, live_runs=runs, committer=committer, start_for=start_for
        )
        self._connect_effects()

    def _connect_effects(self) -> None:
        """Effects that commit events themselves: children and deadlines."""
        runs, committer, resumption = self.live_runs, self.committer, self.resumption
        clock, timers, tasks = self.clock, self.timers, self._tasks
        self.deadlines = QuestionDeadlines(
            clock=clock, timers=timers, tasks=tasks, live_runs=runs, committer=committer, resumption=resumption
        )
        self._answers = Answers(
            journal=self.journal,
            orders=self.orders,
            crews=self.crews,
            live_runs=runs,
            committer=committer,
            resumption=resumption,
            deadlines=self.deadlines,
            host_hooks=self.host_hooks,
        )
        self._cancellation = Cancellation(runs, committer, resumption, self._answers)
        self._messages = HostMessages(runs, committer, resumption, self._answers)
        self.effect_runner.on_alarm = self.deadlines.set_alarm
        self.effect_runner.children = Children(
            journal=self.journal,
            owners=self.owners,
            clock=self.clock,
            crews=self.crews,
            live_runs=runs,
            committer=committer,
            resumption=resumption,
        )

    async def __aenter__(self) -> "Runner":
        await self.effect_runner.held.start()
        self._ticking = [asyncio.create_task(each) for each in (self.timers.run(), self.effect_runner.held.run())]
        if self._listens:
            self._ticking.append(asyncio.create_task(self.order_taker.run()))
            scheduler = BroadcastScheduler(self.hub, self.clock, self._delivery.deliver, self._delayed.is_held)
            self._ticking.append(asyncio.create_task(scheduler.run()))
        self.owners.on_lost(self._on_lease_lost)
        return self

    def _on_lease_lost(self) -> None:
        """Ends all work: other processes may have claimed the runs."""
        for live in list(self.live.values()):
            live.fail(NotOwner(live.id))

    async def __aexit__(self, *_: object) -> None:
        """Stops all runs; the next process recovers them from the store."""
        self.hub.close()
        await self._tasks.finish(self.leaving_max_ms)
        self.live_runs.is_closing = True
        for task in self._ticking:
            task.cancel()
        await asyncio.gather(*self._ticking, return_exceptions=True)
        await self._delayed.stop()
        await self.live_runs.stop_drivers()
        await self.external_sender.stop()
        await self.supervisor.stop()
        await self.live_runs.release_all()

    # Start

    async def start(
        self,
        crew: CrewDefinition,
        crew_sha: str,
        text: str,
        *,
        run_id: str,
        history: tuple[Entry, ...] = (),
        continues: str = "",
        context: CrewContext = NO_CONTEXT,
        schedule: str = "",
        by: str = "",
        user: str = "",
        needs: HostNeeds = NO_NEEDS,
    ) -> RunRow:
        """Starts a run; returns its row as it is stored with the first record."""
        text, verdict = await judge_input(self.host_hooks, text)
        event = RunStarted(
            crew=crew.name,
            input=text,
            rules=RULES,
            messages=message_types(),
            crew_sha=crew_sha,
            continues=continues,
            history=(*context.parent_history, *history),
            context=msgspec.structs.replace(context, parent_history=()) if context != NO_CONTEXT else NO_CONTEXT,
            schedule=schedule,
            by=as_storable(by),
            user=as_storable(user),
            needs=needs,
            checks_output=self.host_hooks.has(HookPoint.ON_OUTPUT),
            verdict=verdict,
        )
        return await self._begin_run(crew, run_id, event)

    async def start_for_delivery(
        self, crew: CrewDefinition, crew_sha: str, delivery: Delivery, run_id: str, needs: HostNeeds = NO_NEEDS
    ) -> None:
        """Starts a run at an agent because of a broadcast; the delivery is acknowledged with its first record."""
        event = RunStarted(
            crew=crew.name,
            input=delivery.heard.broadcast.type,
            rules=RULES,
            messages=message_types(),
            crew_sha=crew_sha,
            entry=delivery.agent,
            heard=delivery.heard,
            delivery=delivery.number,
            needs=needs,
            checks_output=self.host_hooks.has(HookPoint.ON_OUTPUT),
        )
        await self._begin_run(crew, run_id, event)

    async def _begin_run(self, crew: CrewDefinition, run_id: str, event: RunStarted) -> RunRow:
        begins = await self._formats.of_new_run()
        event = msgspec.structs.replace(event, rules=begins.rules)
        row = RunRow(
            run=run_id,
            crew=crew.name,
            crew_sha=event.crew_sha,
            status=str(RunStatus.NEW),
            created_at=self.clock.now_ms(),
            continues=event.continues,
            organization=crew.settings.organization,
            rules=begins.rules,
            format=begins.format,
            private=event.needs.is_private or self.work.private,
        )
        run = Run(crew, run_id, table=self.live_runs.table(crew, event.crew_sha, begins.rules))
        stored: RunRow = await self._tasks.run_shielded(self._store_first_record(run, row, event))
        return stored

    async def _store_first_record(self, run: Run, row: RunRow, event: RunStarted) -> RunRow:
        return (await self.live_runs.begin_run(run, row, event)).row  # before its driver has changed it

    # Answer, message and cancel

    async def resume(
        self, crew: CrewDefinition, run_id: str, answer: GivenAnswer, *, continues_parked: bool = True, order: str = ""
    ) -> None:
        """Answers a wait; a parked run continues as well, unless it is only to store the answer.

        `order` is the key of the order to do so: `OrderCarriedOut` if that has an outcome already.
        """
        await self._tasks.run_shielded(self._answers.resume(crew, run_id, answer, continues_parked, order))

    async def send_message(self, crew: CrewDefinition, run_id: str, given: MessageGiven, *, order: str = "") -> str:
        """Sends a message of the host to an agent of the run; returns its id. `BadMessage` if it cannot be sent."""
        return str(await self._tasks.run_shielded(self._messages.send_message(crew, run_id, given, order)))

    async def cancel(self, crew: CrewDefinition, run_id: str, by: str, *, order: str = "") -> None:
        """Cancels a run. It is stored when this returns; calls in progress are being stopped."""
        await self._tasks.run_shielded(self._cancellation.cancel(crew, run_id, by, order))

    # Park and recover

    async def park(self, run_id: str, by: str) -> bool:
        """Parks a run that this process drives or is starting, with its children; whether it is parked now."""
        await self._tasks.wait_for_all()
        return bool(await self._tasks.run_shielded(self._parking.park(run_id, by)))

    async def set_aside(self, run_id: str, hindrance: str) -> None:
        """Stores that a run rests because this process cannot drive it, with its children."""
        await self._tasks.run_shielded(self._parking.set_aside(run_id, hindrance))

    async def park_all(self, by: str) -> None:
        """Parks every run that this process drives, and those that are about to start."""
        await self._tasks.wait_for_all()
        await self._tasks.run_shielded(self._parking.park_all(by))

    async def recover(self, crew: CrewDefinition, run_id: str) -> None:
        """Continues a run whose owner is gone, after its last stored event."""
        await self.resumption.recover(run_id, crew)

    async def _recover_failed(self, root: str) -> None:
        async with self.live_runs.use_of_claim(root):
            row = await self.journal.row(root)
            if row.status == RunStatus.RUNNING:
                await self.resumption.recover(root, await self.crews.of(row.crew_sha))

    async def _end_failed(self, root: str, error: Exception) -> None:
        async with self.live_runs.use_of_claim(root):
            await self.resumption.end_failed_run(root, error)

    async def check_deadlines(self, run_id: str) -> None:
        """Expires the overdue questions of a run."""
        await self._tasks.run_shielded(self.deadlines.check_deadlines(run_id))

    # Watch

    def wait_until_settled(self, run_id: str) -> Coroutine[Any, Any, None]:
        """Waits until the run is over or paused; raises the error that stopped it in this process."""
        return self.live_runs.wait_until_settled(run_id)

    def wait_until_settled_anywhere(self, run_id: str) -> Coroutine[Any, Any, None]:
        """Waits until the run is over, paused or driven by no process, here or elsewhere."""
        return self.following.wait_until_settled_anywhere(run_id)

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[PublicEvent]:
        """The events after a seq, of the run and those below it, until it is over or paused."""
        return self.following.follow(run_id, after)

    @property
    def observers(self) -> Sequence[Observer]:
        return self.committer.observers

    @observers.setter
    def observers(self, observers: Sequence[Observer]) -> None:
        self.committer.observers = observers

    def table_of(self, run_id: str) -> RoutingTable | None:
        """The routing table of a run that this process drives, or whose record observers are looking at."""
        observed = self.committer.observed
        live = observed if observed is not None and observed.id == run_id else self.live.get(run_id)
        return live.run.table if live is not None else None
