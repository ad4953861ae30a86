"""Several processes on one store, without an engine: who claims, who leads, who sends, and who must stop.

Rule 1: everything follows from the seed. Processes act in turn; the store is the real memory store.
Rule 2: a process may die, stand still and come back without noticing, lose its lease and notice, or lose a release.
Clocks of processes are up to an hour apart; only the store's clock counts.
Rule 3: after the faults there is a quiet phase, in which every run must be driven to its end.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import msgspec

from interlock.engine.events import RunStarted, TimerFired
from interlock.errors import NotLeader, NotOwner
from interlock.ports import AtomicWrites, ClaimRequest, Leadership, OutgoingSignal, Record, RunRow
from interlock.testing.memory_owners import MemoryLeaders, require_leader
from interlock.testing.memory_store import MemoryStore
from interlock.testing.simulation.faults import Violation
from interlock.testing.simulation.seeds import chance_of

START_MS = 1_700_000_000_000
APART_MS = 3_600_000  # the most that the clock of a process differs
STEP_MS = 4_000  # the most between two actions
QUIET_STEP_MS = 60_000
QUIET_ROUNDS = 100
RECORDS = 5  # of a run until it ends
BATCH = 3  # the most that a process claims at once
RULES = 2  # the newest that every process knows

ORGANIZATIONS = ("acme", "umbrella", "")
NEEDS_TOOL = "careful"  # a crew that only some processes can drive
CREWS = ("plain", NEEDS_TOOL)


class DrivenRun(msgspec.Struct):
    """A run in the hands of a process: the row as it knows it."""

    row: RunRow


class FleetProcess:
    """One process: its store, its clock, and what it believes to drive, to lead and to send."""

    def __init__(self, number: int, beside: MemoryStore, *, has_tool: bool, off_ms: int) -> None:
        self.number, self.has_tool, self.off_ms = number, has_tool, off_ms
        self.store = MemoryStore(beside=beside)
        self.leaders = MemoryLeaders(self.store)
        self.driven: dict[str, DrivenRun] = {}
        self.sending: dict[str, OutgoingSignal] = {}
        self.held: Leadership | None = None
        self.stack = AsyncExitStack()
        # Standing still; come back without a lease and not aware of it; without a lease and aware of it.
        self.is_stalled = self.is_zombie = self.is_fenced = False

    @property
    def is_sound(self) -> bool:
        return not (self.is_stalled or self.is_zombie or self.is_fenced)


FleetWork = Callable[[FleetProcess], Awaitable[None]]


class ProcessFleet:
    """Plays a fleet of processes; `violations` are the laws that did not hold."""

    def __init__(self, seed: int, *, size: int = 3, steps: int = 300) -> None:
        self.chance, self.size, self.steps = chance_of(seed, "fleet"), size, steps
        self.now = START_MS
        self.first = MemoryStore()  # opened before all others, and by none of them
        self.processes: list[FleetProcess] = []
        self.started = self.led_epoch = 0
        self.rows: dict[str, RunRow] = {}  # as they were created
        self.epochs: dict[str, int] = {}  # the newest claim of each run
        self.violations: list[Violation] = []

    async def play(self) -> list[Violation]:
        for _ in range(self.steps):
            self.now += self.chance.randrange(STEP_MS)
            while len(self.processes) < self.size:
                self._boot(has_tool=self.chance.random() < 0.4)
            await self._act(self.chance.choice(self.processes))
        await self._come_to_rest()
        return self.violations

    def time_of(self, _process: FleetProcess) -> int:
        """The time that a process compares with stored times: that of the store, not its own."""
        return self.now

    def _report(self, law: str, what: str) -> None:
        self.violations.append(Violation(law=law, at_ms=self.now - START_MS, what=what))

    def _boot(self, *, has_tool: bool) -> FleetProcess:
        self.started += 1
        off_ms = self.chance.randrange(-APART_MS, APART_MS)
        self.processes.append(FleetProcess(self.started, self.first, has_tool=has_tool, off_ms=off_ms))
        return self.processes[-1]

    # Actions

    async def _act(self, process: FleetProcess) -> None:
        if process.is_stalled:
            if self.chance.random() < 0.2:
                process.is_stalled, process.is_zombie = False, True
            return
        fault = self.chance.random()
        if fault < 0.03:
            await self._die(process)
        elif fault < 0.06:
            process.is_stalled = True
            process.store.expire()
        elif fault < 0.08 and not process.is_fenced:
            process.is_fenced = True
            process.store.lose_lease()
        elif fault < 0.12 and process.is_fenced:
            process.store.expire()
        else:
            await self._work(process)

    async def _work(self, process: FleetProcess) -> None:
        works: list[FleetWork] = [self._drive, self._drive, self._lead, self._send]
        if process.is_sound:
            works += [self._create, self._look, self._look, self._lose_driver]
        await self.chance.choice(works)(process)

    async def _die(self, process: FleetProcess) -> None:
        process.store.expire()
        self.processes.remove(process)

    async def _create(self, process: FleetProcess) -> None:
        chance, run, owned = self.chance, f"r{len(self.rows)}", self.chance.random() < 0.5
        row = RunRow(
            run=run,
            crew=chance.choice(CREWS),
            crew_sha="0" * 64,
            status="running",
            organization=chance.choice(ORGANIZATIONS),
            created_at=self.now,
            updated_at=self.now,
            rules=RULES + (chance.random() < 0.05),
            private=chance.random() < 0.05,
        )
        signal = OutgoingSignal(key=f"{run}:1.0", run=run, body=b"{}")
        first = Record(seq=1, at=self.now, events=(RunStarted(crew=row.crew, input="go", rules=row.rules),))
        self.rows[run], self.epochs[run] = row, 0
        await process.store.create(row, first, AtomicWrites(outgoing=(signal,)), owned=owned)
        if owned:
            process.driven[run] = DrivenRun(msgspec.structs.replace(row, seq=1))
            process.sending[signal.key] = signal

    async def _look(self, process: FleetProcess) -> None:
        request = ClaimRequest(
            limit=BATCH, rules=RULES, format=1, at=self.time_of(process), driven=frozenset(process.driven)
        )
        asides = dict(self.first.storage.set_asides)
        driven = self._driven_runs()
        claimed = await process.store.claim_some(request)
        self._check_turns(driven, [self.rows[each.run].organization for each in claimed])
        for each in claimed:
            row = self.rows[each.run]
            others = [other for other in self.processes if other is not process and other.is_sound]
            if any(each.run in other.driven for other in others):
                self._report("what a living process drives is left to it", f"{each.run} is claimed")
            if row.private or row.rules > RULES:
                self._report("a process claims only what it knows", f"{each.run} is claimed")
            aside = asides.get((each.run, process.store.owner))
            if aside is not None and self.now < aside.again_at:
                self._report("a run that is set aside rests", f"{each.run} is claimed before its time")
            self.epochs[each.run] = each.epoch
            await self._take(process, each.run)

    def _driven_runs(self) -> Counter[str]:
        """How many runs of each organization have a living owner."""
        kept, alive = self.first.storage.runs.values(), self.first.storage.alive
        return Counter(each.row.organization for each in kept if each.row.status == "running" and each.owner in alive)

    def _check_turns(self, driven: Counter[str], claimed: list[str]) -> None:
        """An organization gets a run only if no other that waits has fewer."""
        waiting = {
            kept.row.organization
            for kept in self.first.storage.runs.values()
            if kept.row.status == "running" and kept.owner == "" and not kept.row.private and kept.row.rules <= RULES
        } - {self.rows[run].organization for run, _ in self.first.storage.set_asides}
        after = driven + Counter(claimed)
        most = max((after[organization] for organization in claimed), default=0)
        if passed_over := {organization for organization in waiting if after[organization] < most - 1}:
            self._report("organizations take turns", f"{claimed} were claimed, and {passed_over} wait")

    async def _take(self, process: FleetProcess, run: str) -> None:
        row = await process.store.row(run)
        if row.crew == NEEDS_TOOL and not process.has_tool:
            await process.store.set_aside(run, "no tool", self.now)
            await process.store.release(run)
        else:
            process.driven[run] = DrivenRun(row)

    async def _drive(self, process: FleetProcess) -> None:
        """Does one step of a run: an effect, and its record."""
        if not process.driven or not process.store.has_lease():
            return
        run = self.chance.choice(sorted(process.driven))
        if process.is_fenced:
            self._report("no effect starts without a lease", f"process {process.number} works on {run}")
        driven = process.driven[run]
        seq = driven.row.seq + 1
        status = "completed" if seq >= RECORDS else "running"
        row = msgspec.structs.replace(driven.row, status=status, seq=seq, updated_at=self.now)
        try:
            await process.store.append(row, Record(seq=seq, at=self.now, events=(TimerFired(timer="t"),)))
        except NotOwner:
            del process.driven[run]
            return
        if row.epoch < self.epochs[run]:
            self._report("only the owner appends", f"process {process.number} appends to {run} under an old epoch")
        driven.row = row
        if status == "completed":
            del process.driven[run]
            await process.store.release(run)

    async def _lose_driver(self, process: FleetProcess) -> None:
        """A driver ends although its run does not; that it releases the run may be lost."""
        if process.driven and self.chance.random() < 0.5:
            run = self.chance.choice(sorted(process.driven))
            del process.driven[run]
            if self.chance.random() < 0.5:
                await process.store.release(run)

    async def _send(self, process: FleetProcess) -> None:
        if not process.store.has_lease():
            return
        for each in await process.store.claim_signals(self.time_of(process), 2):
            others = [other for other in self.processes if other is not process and other.is_sound]
            if any(each.key in other.sending for other in others):
                self._report("a signal has one sender", f"{each.key} is claimed while another process sends it")
            process.sending[each.key] = each
        for key, signal in list(process.sending.items())[:1]:
            del process.sending[key]
            if self.chance.random() < 0.3:
                await process.store.put_off(key, signal.attempts + 1, self.now + 1_000)
            else:
                await process.store.ack_outgoing(key)

    async def _lead(self, process: FleetProcess) -> None:
        """Leads if it can, and writes as the leader."""
        if process.held is None:
            if not process.is_sound:
                return
            entering = asyncio.ensure_future(process.stack.enter_async_context(process.leaders.leadership("upkeep")))
            for _ in range(3):
                await asyncio.sleep(0)
            if not entering.done():
                entering.cancel()
                await asyncio.gather(entering, return_exceptions=True)
                return
            process.held = entering.result()
            self.led_epoch = process.held.epoch
        if not process.held.is_held():
            return
        try:
            require_leader(self.first.storage, process.held)
        except NotLeader:
            process.held = None
            return
        if process.held.epoch < self.led_epoch:
            self._report("only the leader writes", f"process {process.number} writes, and another leads")

    # The quiet phase

    async def _come_to_rest(self) -> None:
        for process in [each for each in self.processes if not each.is_sound]:
            process.is_stalled, process.is_zombie = False, True
            for _ in range(RECORDS):
                await self._drive(process)
            await self._die(process)
        self._boot(has_tool=True)
        for _ in range(QUIET_ROUNDS):
            self.now += QUIET_STEP_MS
            for process in self.processes:
                await self._look(process)
                for _ in range(RECORDS * len(process.driven)):
                    await self._drive(process)
                await self._send(process)
        await self._check_end()

    async def _check_end(self) -> None:
        for run, row in self.rows.items():
            status = (await self.first.row(run)).status
            is_for_others = row.private or row.rules > RULES
            if status == "running" and not is_for_others:
                self._report("every run comes to its end", f"{run} of crew {row.crew} is not driven")
        for process in self.processes:
            if process.is_sound and process.held is None:
                await self._lead(process)
                return


def play_fleet(seed: int, *, size: int = 3, steps: int = 300) -> list[Violation]:
    """Plays a fleet from a seed; returns the laws that did not hold."""
    return asyncio.run(ProcessFleet(seed, size=size, steps=steps).play())
