"""The fault phase of a simulation: at every moment the seed decides what goes wrong."""

from contextlib import suppress

import msgspec

from interlock.broadcast.naming import stable_id
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.engine.events import MessageGiven
from interlock.errors import InterlockError
from interlock.messages.host_types import message_types
from interlock.runtime.store_retry import STORE_RETRY_MAX_MS
from interlock.testing.simulation.simulated_process import Process, ProcessDied
from interlock.testing.simulation.simulated_world import NEGLECT_MS, SimulatedWorld

JUMP_MS = 2 * 3600 * 1000
HOUR_MS = 3600 * 1000


class FaultPhase:
    """Injects faults into a world, moment by moment."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self.announced = 0

    async def play_moment(self) -> None:
        world = self._world
        process, faults = await world.living_process(), world.plan.faults
        world.resume_one_stalled()
        if world.injector.should_inject(faults.clock_jump):
            self._jump_clock()
        if world.injector.should_inject(faults.duplicate):
            self._deliver_again(process)
        if world.crew.subscriptions:
            await self._announce(process)
        if world.checker.open_tokens() and world.injector.should_inject(faults.answered):
            await world.answer(process, again=world.injector.should_inject(faults.repeated))
        if faults.messaged and world.injector.should_inject(faults.messaged):
            await self._send_message(process)
        if not process.is_dead:
            await self._disturb_process(process)
        await world.recover_if_undriven()

    async def _disturb_process(self, process: Process) -> None:
        world = self._world
        faults = world.plan.faults
        if world.injector.should_crash():
            process.die("at a random moment")
        elif world.injector.should_inject(faults.stalled):
            process.stall()
            world.stalled.append(process)
        elif world.injector.should_inject(faults.cancelled):
            world.checker.record_fault("a person cancels the run")
            with suppress(ProcessDied, InterlockError):
                await process.ask(process.runner.cancel(world.crew, world.run, by="simulation"))
        elif faults.parked and world.injector.should_inject(faults.parked):
            await self._park(process)
        elif faults.lease_lost and world.injector.should_inject(faults.lease_lost):
            process.lose_lease()
        elif faults.hour_away and world.injector.should_inject(faults.hour_away):
            await self._take_store_away(process)

    async def _send_message(self, process: Process) -> None:
        """Sends a message twice with one key; the journal must hold it once."""
        world = self._world
        made, to = world.chance.choice(message_types()), world.chance.choice(world.crew.agent_ids)
        given = MessageGiven(kind=made.type, to=to, body={}, key=f"{world.chance.random()}")
        world.checker.record_fault(f"the host sends {made.type} to {to}")
        with suppress(ProcessDied, InterlockError):
            sent = [await process.ask(process.runner.send_message(world.crew, world.run, given)) for _ in range(2)]
            if sent[0] != sent[1] or sent[0] not in world.checker.root.ledger.messages:
                world.checker.report_violation(
                    "nothing acknowledged is lost", f"the host sent {sent}, and the journal differs"
                )

    async def _park(self, process: Process) -> None:
        """Parks the run; it rests in every process until it is resumed."""
        world = self._world
        world.checker.record_fault("a person parks the run")
        with suppress(ProcessDied, InterlockError):
            if not await process.ask(process.runner.park(world.run, by="simulation")):
                return
            await world.clock.sleep(NEGLECT_MS)
            if left := world.checker.calls_in_progress(process.number):
                world.checker.report_violation("a parked run rests", f"{', '.join(left)} continues")
            if world.chance.random() < 0.5 and not process.is_dead:
                process.die("after it was parked")
            await world.continue_parked()

    async def _take_store_away(self, process: Process) -> None:
        """Takes the store away for an hour. Replies are held meanwhile: no call is made again because of it."""
        world = self._world
        world.checker.record_fault("the store is away for an hour")
        before = {key for key in world.checker.calls_made if key[0] == process.number}
        made = {key: world.checker.calls_made[key] for key in before}
        world.injector.is_store_away = True
        await world.clock.sleep(HOUR_MS)
        world.injector.is_store_away = False
        await world.clock.sleep(2 * NEGLECT_MS + STORE_RETRY_MAX_MS)
        again = [key for (of, key), n in made.items() if world.checker.calls_made[of, key] > n]
        if again and not process.is_dead:
            world.checker.report_violation("what comes back is held", f"{', '.join(again)} was called again")

    def _jump_clock(self) -> None:
        world = self._world
        ms = world.chance.randrange(-JUMP_MS, JUMP_MS)
        world.checker.record_fault(f"the wall clock jumps by {ms} ms")
        world.clock.jump(ms)

    async def _announce(self, process: Process) -> None:
        """Emits a broadcast that an agent of the crew subscribes to."""
        world = self._world
        pattern = world.chance.choice(world.crew.subscriptions).pattern
        self.announced += 1
        broadcast = Broadcast(
            id=stable_id(f"{world.plan.seed}:{self.announced}"),
            type=pattern.replace("*", "x"),
            source=PROCESS,
            data="[END] [STOP]",
            created_at=world.clock.now_ms(),
        )
        world.checker.record_fault(f"a program announces {broadcast.type}")
        with suppress(ProcessDied, InterlockError):
            hub = process.runner.hub
            hub.on_broadcasts(await process.ask(hub.bus.emit(Emission(broadcast=broadcast))))

    def _deliver_again(self, process: Process) -> None:
        world = self._world
        runs = list(world.checker.runs)
        run = world.chance.choice(runs) if len(runs) > 1 else world.run
        live, answers = process.runner.live.get(run), list(world.checker.runs[run].ledger.answers.values())
        if live is None or not answers:
            return
        event = world.chance.choice(answers)
        world.checker.record_fault(f"the answer to call {getattr(event, 'call', '')} is delivered again")
        process.call_inside(live.enqueue_event, msgspec.structs.replace(event, worked_ms=0))
