"""The only doors out: small protocols, shaped by what the engine needs.

Rule 1: a record is acknowledged when `append` returns; from then on it survives whatever the durability promises.
Rule 2: who owns a run is asked apart from what is appended; an append with a stale epoch is refused.
Rule 3: foreign errors stop at the adapter: everything a port raises is a `PortError` or one of the refusals below.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from interlock.broadcast.delayed import Dead, Delayed
from interlock.broadcast.record import Broadcast, Emission, Heard
from interlock.broadcast.run_schedules import RunSchedule
from interlock.broadcast.subscriptions import Hearer, Subscribed
from interlock.crew.definition import Crew
from interlock.engine.bounds import Limit
from interlock.engine.events import NO_USAGE, Event, ToolRequest, Usage
from interlock.engine.grammar import Ending
from interlock.engine.state import Message


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run without reading its journal. `seq` is that of its newest event."""

    run: str
    crew: str
    crew_sha: str
    status: str
    reason: str = ""
    agent: str = ""
    seq: int = 0
    epoch: int = 0
    created_at: int = 0
    updated_at: int = 0
    continues: str = ""
    organization: str = ""
    usage: Usage = Usage()


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One transition as it is stored: an incoming event and all it led to. `seq` is that of the first event."""

    seq: int
    at: int
    events: tuple[Event, ...]

    @property
    def last_seq(self) -> int:
        return self.seq + len(self.events) - 1


class SealedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as a store keeps it. `seq` is that of its first event, for finding it without decoding."""

    seq: int
    crc: int
    link: bytes
    body: bytes


class SealedTree(msgspec.Struct, frozen=True, kw_only=True):
    """A run and all below it as a store keeps them: rows, callers first, and records in the order of the store.

    Each record comes with the place of its run among the rows.
    """

    rows: tuple[RunRow, ...]
    records: tuple[tuple[int, SealedRecord], ...]

    def chains(self) -> list[list[SealedRecord]]:
        """The records of each row's run."""
        chains: list[list[SealedRecord]] = [[] for _ in self.rows]
        for of, record in self.records:
            chains[of].append(record)
        return chains


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a deleted run: where its chain ended, and nothing of what it said."""

    run: str
    crew: str
    seq: int
    link: bytes
    deleted_at: int


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record with its run and its place in the one growing order of the whole store."""

    position: int
    run: str
    record: Record


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Room for one model call within budgets wider than a run. It is granted once, however often it is asked for."""

    key: str
    crew: str
    agent: str
    at: int
    tokens: int
    cost_micros: int
    limits: tuple[Limit, ...]
    provider: str = ""


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What a reserved call came to. Without a usage nobody knows, and what was held for it counts."""

    key: str
    crew: str
    agent: str
    at: int
    usage: Usage | None
    failed: bool = False
    provider: str = ""
    crews_above: tuple[str, ...] = ()  # whose counters the call is in as well


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a reservation: granted unless a limit refused it."""

    refused: str = ""
    what: str = ""
    then: str = ""
    wait_ms: int = 0
    alerts: tuple[str, ...] = ()
    above: int = 0  # whose limit it is: the run's own crew, or that of a caller so many levels up
    most: int = 0  # the size of the limit that refused, and what is used of it
    used: int = 0
    exceeded: tuple[str, ...] = ()  # limits that only warn and have no room for the call


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """Something to hand over outside, kept until somebody has taken it."""

    key: str
    run: str
    body: bytes


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """Agents of a run have ended or begun their work; the first to begin wakes one, the last to end lets it sleep.

    Each comes with the hops of what is announced of it. `name` and `place` are what the ids of broadcasts are made of.
    """

    name: str
    place: int
    crew: str
    run: str
    at: int
    ended: tuple[tuple[str, int], ...] = ()
    begun: tuple[tuple[str, int], ...] = ()


class Taking(msgspec.Struct, frozen=True, kw_only=True):
    """Take what is in the inbox of an agent. Asked again with the same key, the answer is the same."""

    key: str
    crew: str
    agent: str


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A broadcast for an agent that is to act on it."""

    number: int
    crew: str
    agent: str
    heard: Heard
    attempts: int = 0


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One wait for a person. `id` answers it: the message's where an agent asked, else the first token.

    It stays when an answer was refused and the same is asked again under another token. `context` is why it is asked.
    `since` and `until` are in milliseconds since 1970; `until` is 0 where there is no deadline, and `default` is the
    answer that counts then. `fault` says why the last answer was refused. An approval names its `tool`, the `call` and
    the `arguments` as the model wrote them.
    """

    id: str
    run: str
    crew: str
    agent: str
    reason: str
    question: str
    context: str = ""
    expects: str = ""
    choices: tuple[str, ...] = ()
    token: str
    since: int
    until: int = 0
    pattern: str = ""
    schema: dict[str, Any] = {}
    default: str | None = None
    fault: str = ""
    tool: str = ""
    call: str = ""
    arguments: str = ""


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """All that people are asked in a run, the oldest first."""

    run: str
    questions: tuple[OpenQuestion, ...] = ()


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What one process asks of the process that drives a run: to resume it, to cancel it, to give it a message.

    `key` names it once and for all; `by` is who asks, `at` when, in milliseconds since 1970.
    """

    key: str
    run: str
    kind: str
    body: bytes = b""
    by: str = ""
    at: int = 0


class OrderOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order. `seq` is the record that carried it out, if it needed one; `value` is what it gave.

    `refusal` says why it was refused, and is empty if it was not.
    """

    seq: int = 0
    value: str = ""
    refusal: bytes = b""


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """An order is kept. `outcome` is there if it was posted before and carried out since."""

    outcome: OrderOutcome | None = None


class Alongside(msgspec.Struct, frozen=True, kw_only=True):
    """What is done in the transaction of a record: all of it, or none.

    `asking` is there if the record changes what people are asked. `heard` are deliveries that the record takes in, each
    by its number and the id of its broadcast; `taken` and `put_back` are keys of takings whose answer the record holds,
    or that nobody will ever show to a model; `handed_back` are crew, agent and broadcast of deliveries that were taken
    in, and not acted upon. `orders` are keys of orders that the record carries out, each with its outcome.
    """

    spending: tuple[Reservation | Settlement, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()
    broadcasts: tuple[Emission, ...] = ()
    activity: Activity | None = None
    heard: tuple[tuple[int, str], ...] = ()
    taking: tuple[Taking, ...] = ()
    taken: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    handed_back: tuple[tuple[str, str, str], ...] = ()
    asking: Asking | None = None
    orders: tuple[tuple[str, OrderOutcome], ...] = ()

    @property
    def concerns_bus(self) -> bool:
        taken = self.taking or self.taken or self.put_back or self.heard or self.handed_back
        return bool(self.broadcasts or self.activity is not None or taken)


NOTHING_ELSE = Alongside()


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """Whom broadcasts reached, and those that were withheld, with the reason. `news` says that something was kept."""

    reached: tuple[Hearer, ...] = ()
    withheld: tuple[tuple[Broadcast, str], ...] = ()
    news: bool = False


NOTHING_ANNOUNCED = Announced()


class Appended(msgspec.Struct, frozen=True):
    """Where a record stands, and what became of its reservations and takings, in their order."""

    position: int
    grants: tuple[Grant, ...] = ()
    mail: tuple[tuple[Heard, ...], ...] = ()
    announced: Announced = NOTHING_ANNOUNCED


class Journal(Protocol):
    """Appends and reads. One transaction a call: the run's row, its record and what goes with it, or nothing."""

    async def create(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        """Adds a run with its first record; `RunExists` if the id is taken."""
        ...

    async def append(self, row: RunRow, record: Record, also: Alongside = NOTHING_ELSE) -> Appended:
        """Adds a record after `record.seq - 1` under `row.epoch`; `OutOfOrder` or `NotOwner` if that is not so.

        The very record that is there already is no refusal: whoever does not know whether an append took place asks
        again, and gets its position and the answers of its reservations.
        """
        ...

    async def row(self, run: str) -> RunRow:
        """`RunNotFound` if there is none."""
        ...

    async def records(self, run: str, after: int = 0, limit: int | None = None) -> Sequence[Record]:
        """The records with events after this seq; `DamagedRun` if a crc or the chain does not hold.

        With a limit it is so many at most, and ends early once there are `PAGE_BYTES_MAX`; one at least.
        """
        ...

    async def whole(self, run: str) -> tuple[RunRow, Sequence[Record]]:
        """Row and records as they are at one moment."""
        ...

    async def tree(self, run: str, after: int = 0, position: int = 0) -> Sequence[StoredRecord]:
        """From the run's record with the event after this seq, or its last one, on; with those of runs below, in order.

        Only what stands after `position` in the order of the whole store.

        `DamagedRun` if a crc does not hold.
        """
        ...

    async def rows(
        self,
        *,
        status: str | None = None,
        crew: str | Collection[str] | None = None,
        limit: int = 200,
        before: str | None = None,
        nested: bool | None = None,
    ) -> Sequence[RunRow]:
        """The newest runs first, of one crew or of some; `before` is the run after which to go on; `nested` are
        children, or all others."""
        ...

    async def below(self, run: str) -> Sequence[RunRow]:
        """The children of a run, and theirs, in the order in which they were started."""
        ...

    async def put_crew(self, sha: str, body: bytes) -> None:
        """Keeps the canonical form of a crew under its sha256."""
        ...

    async def crew(self, sha: str) -> bytes: ...

    async def close(self) -> None: ...


class Owners(Protocol):
    """Who may append to a run."""

    async def claim(self, run: str) -> int:
        """Makes this process the run's owner and returns the new epoch; `OwnedElsewhere` while another one lives.

        It comes after all that this process has asked to be written before, also if nobody waits for that any more.
        """
        ...

    async def release(self, run: str) -> None: ...

    async def is_owned(self, run: str) -> bool:
        """Whether a process that lives, this one or another, works on the run."""
        ...


class Orders(Protocol):
    """What processes ask of the one that drives a run. The driver carries an order out with a record (`Alongside`)."""

    @property
    def owner(self) -> str:
        """The name under which this process owns runs."""
        ...

    async def post(self, order: Order) -> Posted:
        """Keeps an order; the same key again changes nothing. Orders of more than a day ago are deleted.

        `RunNotFound` if there is no such run, `UsageError` if the run has `ORDERS_PER_RUN_MAX` open orders.
        """
        ...

    async def orders_for(self, owner: str) -> Sequence[Order]:
        """The open orders for runs that a process owns, and for all below those, the oldest first."""
        ...

    async def outcome(self, key: str) -> OrderOutcome | None:
        """Nothing while the order is open; `OrderLost` if there is no such order, or it is damaged."""
        ...

    async def settle(self, key: str, outcome: OrderOutcome) -> None:
        """Notes what became of an order that no record carried out; the first outcome counts."""
        ...

    async def forget(self, key: str) -> None:
        """Deletes an order whose outcome was read, or that its poster has carried out."""
        ...


class Budgets(Protocol):
    """What calls of all runs have cost, by crew, agent and UTC window."""

    async def spend(self, row: RunRow, orders: Sequence[Reservation | Settlement]) -> tuple[Grant, ...]:
        """In a transaction of its own, for orders whose answer was lost; those already carried out are not again.

        `NotOwner` under a stale epoch: by then somebody else has settled them.
        """
        ...


class Outbox(Protocol):
    """What was to be handed over outside, and perhaps was not."""

    async def pending(self, run: str | None = None) -> Sequence[Outgoing]:
        """The oldest first."""
        ...

    async def delivered(self, key: str) -> None: ...


def of_file(crew: Crew) -> list[Subscribed]:
    """What the file of a crew subscribes its agents to."""
    return [
        Subscribed(crew=crew.name, agent=each.agent, pattern=each.pattern.strip(), silent=each.silent, origin="file")
        for each in crew.subscriptions
    ]


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """How many broadcasts are gone, and after which position there may be more that are old enough."""

    gone: int
    further: int | None


class Bus(Protocol):
    """Broadcasts, who hears them, and those for later. One transaction a call."""

    async def emit(self, emission: Emission) -> Announced:
        """Keeps it, and puts it before all who hear it; once, however often it is asked for."""
        ...

    async def restore(self, broadcasts: Sequence[Broadcast]) -> int:
        """Keeps what was announced elsewhere and is told to nobody any more; how many were not known yet."""
        ...

    async def newest(self, limit: int, pattern: str | None = None) -> Sequence[Broadcast]:
        """The oldest of them first."""
        ...

    def newest_pages(self, limit: int, pattern: str | None = None) -> AsyncIterator[Sequence[Broadcast]]:
        """The same in pages that end at `PAGE_BYTES_MAX`; the next one is read when it is asked for."""
        ...

    async def since(self, position: int, limit: int) -> Sequence[tuple[int, Broadcast]]:
        """What was kept after a position, with the position of each; without damaged ones.

        It ends early once there are `PAGE_BYTES_MAX`, and never empty while there is more.
        """
        ...

    async def head(self) -> int:
        """The position of the newest."""
        ...

    async def prune(self, before: int, after: int = 0) -> Pruned:
        """Forgets what was announced before a time, of one page after a position; not what is still to be heard."""
        ...

    async def subscribe(self, subscribed: Subscribed) -> None:
        """`UsageError` beyond what one agent may have."""
        ...

    async def unsubscribe(self, crew: str, agent: str, pattern: str) -> bool:
        """Whether there was such a subscription."""
        ...

    async def declare(self, crew: str, sha: str, subscriptions: Sequence[Subscribed]) -> None:
        """What the newest file of a crew subscribes to; what an older one did and this does not is gone."""
        ...

    async def crew_sha(self, crew: str) -> str:
        """Of its newest file; empty if none was ever declared."""
        ...

    async def subscriptions(self) -> Sequence[Subscribed]: ...

    async def schedule(self, entry: Delayed) -> Delayed | None:
        """Queues it, and gives the one whose place it takes."""
        ...

    async def cancel(self, id: str = "", *, type: str = "", repeat_key: str = "") -> Delayed | None:  # noqa: A002
        """By id, or by type and repeatKey; gives what was cancelled."""
        ...

    async def delayed(self, limit: int | None = None) -> Sequence[Delayed]:
        """In the order in which they are due."""
        ...

    def delayed_pages(self, limit: int) -> AsyncIterator[Sequence[Delayed]]:
        """The same in pages, as `newest_pages`."""
        ...

    async def due(self, now: int, limit: int) -> Sequence[Delayed]: ...

    async def next_due(self, now: int) -> int | None:
        """When, after now, something of the queue is due, or a delivery is to be tried again."""
        ...

    async def clock_was_set(self, now: int) -> None:
        """Plans anew what was moved on or put off by a clock that was ahead of this."""
        ...

    async def dispatch(self, entries: Sequence[Delayed], now: int) -> Announced:
        """Announces each that is still in the queue as it is given, and moves it out or on, in one transaction."""
        ...

    async def dispatch_failed(self, entry: Delayed, reason: str, now: int) -> Dead | None:
        """Tries it again later; what was tried often enough is dead."""
        ...

    async def mail(self) -> Sequence[tuple[str, str]]:
        """Crews and agents with something in their inbox."""
        ...

    async def take(self, taking: Taking) -> tuple[Heard, ...]:
        """In a transaction of its own, for a taking whose answer was lost."""
        ...

    async def awaiting(self, now: int) -> Sequence[tuple[str, str]]:
        """Crews and agents that are to act on something now, rather than later."""
        ...

    async def next_delivery(self, crew: str, agent: str, now: int) -> Delivery | None:
        """Of what the agent is to act on, and is not to be tried later, what was announced first."""
        ...

    async def delivery_failed(self, number: int, reason: str, now: int) -> Dead | None: ...

    async def work(self, activity: Activity) -> Announced:
        """In a transaction of its own, for runs that were taken up in the middle."""
        ...

    def dead_pages(self, limit: int) -> AsyncIterator[Sequence[Dead]]:
        """What `dead` gives in pages, as `newest_pages`."""
        ...

    async def dead(self, limit: int) -> Sequence[Dead]:
        """The newest first."""
        ...

    async def revive(self, id: str) -> int:  # noqa: A002
        """Delivers again what is dead under this id, as if it were new; how many letters that were."""
        ...

    def version(self) -> int | None:
        """A number that changes when another process has changed something; None while that cannot be told.

        It costs next to nothing: it is asked for before every record.
        """
        ...

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Calls back when another process has changed something; gives what ends that."""
        ...


class Keeping(Protocol):
    """Whole runs in and out of a store."""

    async def sealed(self, run: str) -> Sequence[SealedRecord]:
        """The run's records as they are kept; `DamagedRun` if a crc or the chain does not hold."""
        ...

    async def add(self, row: RunRow, records: Sequence[SealedRecord]) -> None:
        """A whole run in one transaction, owned by nobody, in place of a tombstone only if it is the very same chain.

        `RunExists` if the id is taken or was, `DamagedRun` if a crc or the chain does not hold.
        """
        ...

    async def delete(self, run: str, at: int) -> Tombstone:
        """Leaves a tombstone in place of the run's chain; `OwnedElsewhere` while another process works on it."""
        ...

    async def tombstones(self) -> Sequence[Tombstone]:
        """The oldest first."""
        ...


class KeepingTrees(Protocol):
    """Runs with all that they called, in and out of a store in one transaction each."""

    async def sealed_tree(self, run: str) -> SealedTree:
        """`DamagedRun` if a crc or a chain does not hold, or a row is damaged."""
        ...

    async def add_tree(self, tree: SealedTree) -> None:
        """All of them or none; each as `Keeping.add` does."""
        ...

    async def delete_tree(self, run: str, at: int) -> Sequence[Tombstone]:
        """All of them or none, the run itself first; `OwnedElsewhere` while another process works on one of them."""
        ...

    async def finished_before(self, before: int, after: str, limit: int) -> Sequence[str]:
        """Finished runs that no other run called and that changed last before a time, by id, after an id."""
        ...

    async def expire_tombstones(self, before: int) -> int:
        """Forgets which runs were deleted before a time; how many those were."""
        ...


class Questions(Protocol):
    """What people are asked in all runs, as it was kept with their records."""

    async def open_questions(
        self, limit: int, before: tuple[int, str] | None = None, run: str | None = None
    ) -> Sequence[OpenQuestion]:
        """The newest first; those before a time and token; those of one run and the ones below it. Pages as of `since`.

        Without damaged ones: once one was met, `unlisted` names every live run until its questions are listed again.
        """
        ...

    async def unlisted(self) -> Sequence[str]:
        """Runs that came in whole, or were there before questions were kept: nobody knows what they ask."""
        ...

    async def list_questions(self, asking: Asking, seq: int) -> None:
        """Keeps what a run asks with this seq as its newest; if it has moved on, nothing."""
        ...


class SpentByRun(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of a run have cost by agent, up to this seq."""

    run: str
    seq: int
    agents: dict[str, Usage]


class Sums(Protocol):
    """What runs have cost, as somebody added it up once; their journals tell it too, and are the truth."""

    async def spent(self, rows: Sequence[RunRow]) -> Mapping[str, Mapping[str, Usage]]:
        """By run and agent, of those whose sum is of the seq that they have."""
        ...

    async def keep_spent(self, found: Sequence[SpentByRun]) -> None: ...


class Feed(Protocol):
    """The records of all runs in the one order of the whole store."""

    async def newest_position(self) -> int:
        """The highest position there is; 0 in an empty store."""
        ...

    async def since(self, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """What stands after a position, in order.

        It ends early once there are `PAGE_BYTES_MAX`, and never empty while there is more.
        """
        ...

    async def of_run(self, run: str, position: int, limit: int = 200) -> Sequence[StoredRecord]:
        """The same of a run and those below it; `RunNotFound` if there is none."""
        ...


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request under a key of its caller's; `planned` is the id that whatever it makes will have."""

    caller: str
    key: str
    fingerprint: bytes
    planned: str
    at: int
    status: int = 0
    body: bytes = b""


class Requests(Protocol):
    """What was asked for and answered, kept so that asking twice does nothing twice."""

    async def remember(self, asked: Asked, *, forget_before: int) -> Asked:
        """The first request under this key, which may be this very one; `status` is 0 while it has no answer."""
        ...

    async def answered(self, asked: Asked) -> None:
        """Keeps status and body as the answer."""
        ...


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """Something to send to a webhook. `key` is the same on every try.

    One that is dead is tried no more, and `due_at` says since when.
    """

    hook: str
    key: str
    body: bytes
    number: int = 0
    attempts: int = 0
    due_at: int = 0
    dead: bool = False
    error: str = ""


class Sessions(Protocol):
    """Sessions of browsers that were closed before their time."""

    async def close_session(self, session: str, until: int, now: int) -> None:
        """Keeps it for as long as it would have been open."""
        ...

    async def closed_sessions(self, now: int) -> Sequence[str]:
        """Those that would still be open."""
        ...


class Letters(Protocol):
    """What webhooks have to send: as durable as the records that it tells of."""

    async def read_up_to(self, hook: str) -> int | None:
        """The position up to which this webhook has read; None before its first time."""
        ...

    async def post(self, hook: str, position: int, letters: Sequence[Letter]) -> None:
        """Takes letters in and moves the webhook's position on, both or neither."""
        ...

    async def hooks_due(self, now: int) -> Sequence[str]:
        """The webhooks that have a letter to send, also those that are not set up any more."""
        ...

    async def due(self, hook: str, now: int, limit: int) -> Sequence[Letter]: ...

    async def sent(self, letter: Letter) -> None: ...

    async def put_off(self, letter: Letter) -> None:
        """Keeps attempts, `due_at`, `dead` and `error` as the letter says; of the dead, the newest are kept."""
        ...

    async def dead_letter(self, number: int) -> Letter | None: ...

    async def dead_letters(self, limit: int, before: int | None = None) -> Sequence[Letter]:
        """The newest first; those before a number. Pages as of `Feed.since`."""
        ...

    async def send_again(self, number: int, at: int) -> Letter | None:
        """A dead letter is due then, as if for the first time; gives it as it was, if there is one."""
        ...

    async def discard(self, number: int) -> bool:
        """A dead letter is gone; whether there was one."""
        ...


class FolderCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is of what, for those who watch a server. `runs` are crew, status and number of live runs."""

    runs: tuple[tuple[str, str, int], ...] = ()
    questions: int = 0
    oldest_question_at: int = 0
    letters_waiting: int = 0
    letters_dead: int = 0
    broadcasts_dead: int = 0
    schedules: int = 0
    schedules_failed: int = 0
    next_schedule_at: int = 0


class RunSchedules(Protocol):
    """Schedules that start runs."""

    async def add_schedule(self, schedule: RunSchedule) -> None:
        """`UsageError` if there are too many."""
        ...

    async def replace_schedule(self, old: RunSchedule, new: RunSchedule) -> bool:
        """Whether it was still as `old`; if not, nothing is changed."""
        ...

    async def remove_schedule(self, schedule_id: str) -> bool:
        """Whether there was one."""
        ...

    async def run_schedules(self) -> Sequence[RunSchedule]:
        """The next one first."""
        ...


class ToolSchema(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: dict[str, Any]


# What a model is shown is what the engine keeps: copying every message for every call would cost a turn its length.
PromptMessage = Message


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One call, the agent's `number`th of the run. Key and number are the same whenever the same call is made again.

    `ending` says how the reply must end: a client that can constrain decoding does so (by `ending.grammar`, or by
    `ending.schema` and then `ending.reply_of`), and says `constrained` in its reply. `ending.marks` are the marks.
    `purpose` is what the call is for, if not the agent's own turn: `select` children for a task, `check` a report;
    it is the `purpose_number`th of these.
    """

    key: str
    agent: str
    number: int
    system: str
    messages: Sequence[PromptMessage]
    tools: tuple[ToolSchema, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    ending: Ending | None = None
    purpose: str = ""
    purpose_number: int = 0
    path: tuple[str, ...] = ()  # of a sub-crew: how it is named from the outermost crew down; `team#2` is a second one


class Delta(msgspec.Struct, frozen=True):
    """A piece of a reply, as it comes."""

    text: str


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    usage: Usage = NO_USAGE
    tool_calls: tuple[ToolRequest, ...] = ()
    constrained: bool = False  # the reply was held to the request's ending
    uncounted: bool = False  # the provider counts tokens, and said nothing of them: an estimate takes their place


class Model(Protocol):
    def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        """Pieces, then the whole; raises `ModelRefused` or `ModelUnavailable`."""
        ...


class Toolbox(Protocol):
    def schemas(self, names: Sequence[str]) -> tuple[ToolSchema, ...]: ...

    def is_idempotent(self, name: str) -> bool: ...

    def needs_approval(self, name: str) -> bool:
        """Whether a person must agree before it runs."""
        ...

    async def run(self, name: str, arguments: str, *, key: str) -> str:
        """The tool's output as text; raises `ToolFailed` with what the model should be told."""
        ...


class Clock(Protocol):
    """Wall time for people and journals, monotonic time for bounds."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...

    async def sleep_until(self, monotonic_ms: int) -> None: ...


class Observer(Protocol):
    """Sees what happened; it does not steer."""

    def __call__(self, stored: StoredRecord) -> None: ...
