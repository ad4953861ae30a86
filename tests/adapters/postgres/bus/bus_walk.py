"""Random histories of the bus through three sets of tables: memory, PostgreSQL with the rules in Python, and PostgreSQL
with the functions in SQL. Answers and tables must be equal after every step.

Each history runs in one transaction on each connection, which is rolled back.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from interlock import limits
from interlock.adapters.postgres.bus import announcements, bus_queries, record_writes
from interlock.adapters.postgres.bus.bus_tables import PostgresBusTables
from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.runs import transitions
from interlock.adapters.postgres.runs.transitions import RunTransition
from interlock.adapters.store_rules import bus_rules, delayed_rules, record_format
from interlock.adapters.store_rules.broadcast_rows import RowKind
from interlock.broadcast import rate_limits
from interlock.broadcast.delayed import DelayedBroadcast, delivery_order
from interlock.broadcast.record import PROCESS, SYSTEM, Broadcast, Emission, Source
from interlock.broadcast.schedules import Schedule
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.engine.events import Event, ModelReplied, RunStarted, TurnStarted
from interlock.errors import AlreadyHeard, InterlockError
from interlock.ports import Activity, AppendResult, AtomicWrites, InboxClaim, Record, RunRow
from interlock.testing import memory_bus
from interlock.testing.memory_bus import MemoryTables

NOW = 1_800_000_000_000
OWNER = 7

# Small, so that short histories meet them.
BOUNDS = {
    "INBOX_MAX": 3,
    "INBOX_TAKEN_MAX": 2,
    "DEAD_LETTERS_MAX": 4,
    "BROADCAST_HOPS_MAX": 2,
    "BROADCASTS_PER_MINUTE_MAX": 1,
}

CREWS, RUNS, KEYS = ("ci", "ops"), ("r0", "r1", "r2", "r3", "r4", "r5"), ("k0", "k1")
AGENTS = ("a", "b", 'ć"\\', "d:e")
TYPES = ("x", "x:y", "x:y", " x ", ":", "x:", "agent:a:wake", "agent:a:sleep", "*", "")
PATTERNS = ("x", "*", "x:*", "*:*", "*:y", "agent:*:*", "agent:a:wake", "agent:*:sleep", " x:y ", "", "agent:*:*:*")
SUBSCRIBED_FIRST = 3
PAUSES = (0, 0, 0, 0, 0, 1, 30_000, 59_999, 60_000, -100, -70_000)


@contextmanager
def small_bounds() -> Iterator[None]:
    """All modules that know a bound know the small one."""
    known = [
        (module, name, getattr(module, name))
        for module in (limits, bus_rules, rate_limits, memory_bus)
        for name in BOUNDS
        if hasattr(module, name)
    ]
    for module, name, _ in known:
        setattr(module, name, BOUNDS[name])
    try:
        yield
    finally:
        for module, name, value in known:
            setattr(module, name, value)


class Step(NamedTuple):
    """A transition of a history. `fault` is "" or how it differs from the next one of its run: "again", "order"."""

    row: RunRow
    record: Record
    also: AtomicWrites
    fault: str = ""

    @property
    def is_new(self) -> bool:
        """Whether it creates its run."""
        return self.record.seq == 1 and not self.fault


class Places:
    """The three sets of tables. `heard` names deliveries by crew, agent and id: each has numbers of its own."""

    def __init__(self, python: PostgresConnection, functions: PostgresConnection) -> None:
        self.memory, self.in_python, self.in_sql = MemoryTables(), python, functions

    def apply(self, rule: Any, *values: Any, in_sql: Any = None) -> list[Any]:
        """The answers of all three to a rule on their tables; the third may have a way of its own."""
        answers = [_answer(rule, self.memory, *values)]
        for connection, its_rule in ((self.in_python, rule), (self.in_sql, in_sql or rule)):
            tables = PostgresBusTables(connection)
            answers.append(_answer(its_rule, tables, *values))
            tables.finish()
        return answers

    def append(self, steps: Sequence[Step]) -> list[Any]:
        """The answers to a batch of transitions."""
        tables = PostgresBusTables(self.in_python)
        in_memory = self._append_to(self.memory, _resolve(self.memory, steps))
        in_python = self._append_to(tables, _resolve(tables, steps))
        tables.finish()
        in_sql: list[Any] = []
        resolved = _resolve(PostgresBusTables(self.in_sql), steps)
        for is_new, batch in groupby(resolved, lambda each: each.is_new):
            in_sql += self._append_batch(list(batch), is_new)
        return [in_memory, in_python, in_sql]

    def _append_to(self, tables: Any, steps: Sequence[Step]) -> list[Any]:
        """Creations are checked first: what a run starts with is gone before its batch announces anything."""
        refused = {each.row.run for each in steps if each.is_new and not _start(tables, each)}
        return ["AlreadyHeard" if each.row.run in refused else _apply_step(tables, each) for each in steps]

    def _append_batch(self, steps: list[Step], is_new: bool) -> list[Any]:
        batch = [
            RunTransition(each.row, each.record, record_format.encode_record(each.record), each.also, owner=OWNER)
            for each in steps
        ]
        if is_new:
            answers = transitions.create_runs(self.in_sql, OWNER, batch, False)
        else:
            answers = transitions.append_records(self.in_sql, OWNER, batch)
        results = [transitions.result_of(each, answer) for each, answer in zip(batch, answers, strict=True)]
        return [
            (each.mail, each.announced) if isinstance(each, AppendResult) else type(each).__name__ for each in results
        ]


def _start(tables: Any, step: Step) -> bool:
    """Takes the deliveries that a new run starts with; false if one of them is not queued any more."""
    try:
        bus_rules.require_queued(tables, step.row.run, step.also)
    except AlreadyHeard:
        return False
    for number, _ in step.also.heard:
        tables.drop_delivery(number)
    return True


def _apply_step(tables: Any, step: Step) -> Any:
    """The answers to a transition, by the rules in Python."""
    if step.fault == "order":
        return "OutOfOrder"
    also = step.also.to_repeat() if step.fault else step.also
    mail, announced = bus_rules.apply_bus_writes(tables, also)
    if not step.fault and (step.also.ended or step.also.begun):
        presented = bus_rules.record_presence(tables, bus_rules.activity_of_record(step.row, step.record, step.also))
        announced = bus_rules.merge_announcements(announced, presented)
    return mail, announced


def _resolve(tables: Any, steps: Sequence[Step]) -> list[Step]:
    """The steps with the numbers that deliveries have in these tables, before the first of them."""
    found = []
    for step in steps:
        heard = tuple((number_of_delivery(tables, name), name.split(" ")[-1]) for _, name in step.also.heard)
        found.append(step._replace(also=msgspec.structs.replace(step.also, heard=heard)))
    return found


def number_of_delivery(tables: Any, name: str) -> int:
    crew, agent, id_ = name.split(" ")[:3]
    if isinstance(tables, MemoryTables):
        found = [
            n for n, e in tables.deliveries.items() if (e.crew, e.agent, e.heard.broadcast.id) == (crew, agent, id_)
        ]
        return found[0] if found else 10**6
    query = "select number from deliveries join broadcasts on position = broadcast"
    row = tables._execute(f"{query} where crew = %s and agent = %s and id = %s", (crew, agent, id_)).fetchone()
    return int(row[0]) if row is not None else 10**6


def _answer(rule: Any, tables: Any, *values: Any) -> Any:
    try:
        return rule(tables, *values)
    except InterlockError as error:
        return type(error).__name__


# What is in the tables

_CONTENTS = """select json_build_object(
    'inbox', (select json_agg(json_build_array(crew, agent, id, taken) order by crew, agent, position)
        from inbox join broadcasts on position = broadcast),
    'unread', (select json_agg(json_build_array(crew, agent, unread) order by crew, agent)
        from mailboxes where unread <> 0),
    'deliveries', (select json_agg(json_build_array(crew, agent, id, attempts, try_at) order by number)
        from deliveries join broadcasts on position = broadcast),
    'active', (select json_agg(json_build_array(crew, each, run) order by crew, each collate "C", run)
        from active cross join unnest(agents) each),
    'counts', (select json_agg(json_build_array(crew, agent, runs) order by crew, agent)
        from active_counts where runs <> 0),
    'announced', (select json_agg(json_build_array(crew, agent, start, number) order by crew, agent) from announced),
    'dead', (select json_agg(convert_from(body, 'UTF8') order by number) from dead),
    'hops', (select json_agg(json_build_array(id, hops) order by position) from broadcasts)
)"""


def contents_of(connection: PostgresConnection) -> dict[str, Any]:
    """The tables, without positions and numbers."""
    row = connection.execute(_CONTENTS).fetchone()
    assert row is not None
    found = {name: value or [] for name, value in row[0].items()}
    found["delayed"] = bus_queries.list_delayed(connection)
    found["broadcasts"] = [
        (each, row.kind == RowKind.BROADCAST)
        for row in announcements.rows_after(connection, 0)
        for _, each in row.broadcasts
    ]
    return found


def contents_in_memory(tables: MemoryTables) -> dict[str, Any]:
    """The same of tables in memory."""
    ids = {position: id_ for id_, position in tables.positions.items()}
    inbox = sorted(tables.inbox.values(), key=lambda each: (each.crew, each.agent, each.position))
    unread: dict[tuple[str, str], int] = {}
    for each in inbox:
        if not each.taken:
            unread[each.crew, each.agent] = unread.get((each.crew, each.agent), 0) + 1
    runs = tables.active.runs
    return {
        "inbox": [[each.crew, each.agent, ids[each.position], each.taken] for each in inbox],
        "unread": [[*who, number] for who, number in sorted(unread.items())],
        "deliveries": [
            [each.crew, each.agent, each.heard.broadcast.id, each.attempts, tables.try_at[number]]
            for number, each in sorted(tables.deliveries.items())
        ],
        "active": sorted([crew, agent, run] for (crew, agent), found in runs.items() for run in found),
        "counts": [[*who, len(found)] for who, found in sorted(runs.items()) if found],
        "announced": [[*who, *count] for who, count in sorted(tables.announced.items())],
        "dead": [msgspec.json.encode(each).decode() for each in tables.dead.values()],
        "hops": [[ids[position], hops] for position, (_, hops) in sorted(tables.broadcasts.items())],
        "delayed": in_delivery_order(tables),
        "broadcasts": [
            (each, position in tables.broadcasts) for together in tables.since(0) for position, each in together
        ],
    }


def in_delivery_order(tables: MemoryTables) -> list[DelayedBroadcast]:
    return sorted(tables.delayed.values(), key=delivery_order)


# Histories


class BusWalk:
    """A history that `rng` decides. `seen` are its steps in words, for whoever looks at a difference."""

    def __init__(self, rng: random.Random, places: Places) -> None:
        self.rng, self.places = rng, places
        self.now = NOW
        self.made = 0
        self.seqs: dict[str, int] = {}
        self.last: dict[str, Step] = {}
        self.seen: list[str] = []

    def go(self, steps: int) -> None:
        for n in range(steps):
            self.now += self.rng.choice(PAUSES)
            verb = self.rng.choice(
                ("subscribe",)
                if n < SUBSCRIBED_FIRST
                else ("append",) * 9
                + ("subscribe",)
                + ("emit", "emit", "claim", "presence", "fail", "retry", "restore")
                + ("schedule", "dispatch", "unsubscribe", "prune")
            )
            answers = getattr(self, verb)()
            self.compare("answers", *answers)
            memory = contents_in_memory(self.places.memory)
            self.compare("tables", memory, contents_of(self.places.in_python), contents_of(self.places.in_sql))

    def compare(self, what: str, *found: Any) -> None:
        for name, each in zip(("rules in Python", "functions in SQL"), found[1:], strict=True):
            if each != found[0]:
                raise DifferenceFound(what, name, found[0], each, self.seen)

    def append(self) -> list[Any]:
        runs = self.rng.sample(RUNS, self.rng.randint(1, 4))
        steps = sorted((self.transition(run) for run in runs), key=lambda each: not each.is_new)
        self.seen.append(f"append {steps}")
        answers = self.places.append(steps)
        for step, answer in zip(steps, answers[0], strict=True):
            if not step.fault and answer != "AlreadyHeard":
                self.seqs[step.row.run] = step.record.last_seq
                self.last[step.row.run] = step
        return answers

    def transition(self, run: str) -> Step:
        crew = CREWS[RUNS.index(run) % 2]
        if run in self.last and self.rng.random() < 0.15:
            return self.last[run]._replace(fault="again")
        seq = self.seqs.get(run, 0) + 1
        fault = "order" if seq > 1 and self.rng.random() < 0.1 else ""
        ended, begun = self.agents(), self.agents()
        events = self.events(seq, crew, ended, begun)
        record = Record(seq=seq + 3 if fault else seq, at=self.now, events=events)
        row = RunRow(run=run, crew=crew, crew_sha="", status="running", created_at=NOW, updated_at=self.now)
        return Step(row, record, self.writes(ended, begun), fault)

    def agents(self) -> tuple[tuple[str, int], ...]:
        count = self.rng.choice((0, 0, 1, 1, 2))
        return tuple((self.rng.choice(AGENTS), self.rng.randint(0, 3)) for _ in range(count))

    def events(
        self, seq: int, crew: str, ended: Sequence[tuple[str, int]], begun: Sequence[tuple[str, int]]
    ) -> tuple[Event, ...]:
        """Events that tell of those who ended and began, or of nobody."""
        first: Event = RunStarted(crew=crew, input="", rules=1)
        if seq > 1:
            first = ModelReplied(call="1.0", agent=ended[0][0] if ended else "z", text="")
        tells = self.rng.random() < 0.7
        return (first, *(TurnStarted(agent=agent, turn=1) for agent, _ in begun if tells))

    def writes(self, ended: tuple[tuple[str, int], ...], begun: tuple[tuple[str, int], ...]) -> AtomicWrites:
        some = self.some
        known = [*self.places.memory.positions, "nothing"]
        queued = [
            f"{each.crew} {each.agent} {each.heard.broadcast.id}" for each in self.places.memory.deliveries.values()
        ]
        queued += [f"{name} other" for name in queued[:1]]  # the number of one, and the id of another
        return AtomicWrites(
            heard=tuple((0, name) for name in some(queued, 0.4)),
            taken=some(KEYS, 0.2),
            put_back=some(KEYS, 0.2),
            handed_back=tuple((self.crew(), self.rng.choice(AGENTS), name) for name in some(known, 0.2)),
            taking=tuple(
                InboxClaim(key=key, crew=self.crew(), agent=self.rng.choice(AGENTS)) for key in some(KEYS, 0.3)
            ),
            broadcasts=tuple(self.emission() for _ in range(self.rng.choice((0, 0, 0, 1, 2, 5)))),
            ended=ended,
            begun=begun,
        )

    def some(self, names: Sequence[str], chance: float) -> tuple[str, ...]:
        return (
            tuple(self.rng.sample(names, self.rng.randint(1, min(2, len(names)))))
            if (names and self.rng.random() < chance)
            else ()
        )

    def crew(self) -> str:
        return self.rng.choice((*CREWS, CREWS[0]))

    def broadcast(self) -> Broadcast:
        agent = self.rng.choice(("", *AGENTS))
        self.made += 1
        name = f"b{self.rng.randint(1, self.made)}" if self.rng.random() < 0.2 else f"b{self.made}"
        source = Source(type="agent", id=agent) if agent else self.rng.choice((PROCESS, SYSTEM))
        data = self.rng.choice((msgspec.UNSET, {"n": 1}, "nul \0 and é"))
        return Broadcast(id=name, type=self.rng.choice(TYPES), source=source, data=data, created_at=self.now)

    def emission(self) -> Emission:
        broadcast = self.broadcast()
        agent = broadcast.source.id or self.rng.choice(("", "", "a"))
        told = self.some(AGENTS, 0.2)
        return Emission(
            broadcast=broadcast, crew=self.crew(), agent=agent, hops=self.rng.choice((0, 0, 1, 2, 3)), told=told
        )

    # Other verbs

    def subscribe(self) -> list[Any]:
        subscribed = AgentSubscription(
            crew=self.crew(),
            agent=self.rng.choice(AGENTS),
            pattern=self.rng.choice(PATTERNS),
            silent=self.rng.random() < 0.6,
        )
        self.seen.append(f"subscribe {subscribed}")
        return self.places.apply(bus_rules.subscribe, subscribed)

    def unsubscribe(self) -> list[Any]:
        known = [each.key for each in self.places.memory.directory.all()] or [("ci", "a", "x")]
        key = self.rng.choice(known)
        self.seen.append(f"unsubscribe {key}")
        return self.places.apply(lambda tables: tables.drop_subscription(*key))

    def emit(self) -> list[Any]:
        emission = self.emission()
        self.seen.append(f"emit {emission}")
        return self.places.apply(bus_rules.announce, (emission,), in_sql=record_writes.announce)

    def claim(self) -> list[Any]:
        claim = InboxClaim(key=self.rng.choice(KEYS), crew=self.crew(), agent=self.rng.choice(AGENTS))
        self.seen.append(f"claim {claim}")
        return self.places.apply(bus_rules.claim_inbox, claim)

    def presence(self) -> list[Any]:
        self.made += 1
        activity = Activity(
            name=f"series{self.made:07}", place=1, crew=self.crew(), run=self.rng.choice(RUNS), at=self.now,
            ended=self.agents(), begun=self.agents(),
        )  # fmt: skip
        self.seen.append(f"presence {activity}")
        return self.places.apply(bus_rules.record_presence, activity)

    def fail(self) -> list[Any]:
        queued = [
            f"{each.crew} {each.agent} {each.heard.broadcast.id}" for each in self.places.memory.deliveries.values()
        ]
        name = self.rng.choice([*queued, "ci a nothing"])
        self.seen.append(f"fail {name}")

        def fail(tables: Any) -> Any:
            number = number_of_delivery(tables, name)
            return bus_rules.record_delivery_failure(tables, number, "no \0 model", self.now)

        return self.places.apply(fail)

    def retry(self) -> list[Any]:
        name = self.rng.choice([*(each.id for each in self.places.memory.dead.values()), "nothing"])
        self.seen.append(f"retry {name}")
        return self.places.apply(bus_rules.retry_dead_letters, name)

    def restore(self) -> list[Any]:
        known = [each for together in self.places.memory.since(0) for _, each in together]
        broadcasts = [*self.rng.sample(known, min(3, len(known))), *(self.broadcast() for _ in range(2))]
        broadcasts += broadcasts[:1]
        self.seen.append(f"restore {broadcasts}")
        return self.places.apply(bus_rules.restore, broadcasts, in_sql=lambda tables, given: tables.restore(given))

    def schedule(self) -> list[Any]:
        self.made += 1
        entry = DelayedBroadcast(
            id=f"d{self.made}", type=self.rng.choice(("x", "x:y")), source=PROCESS, created_at=self.now,
            updated_at=self.now, deliver_at=self.now + self.rng.choice((-1, 0, 50)), data={"n": self.made},
            repeat_key=self.rng.choice((None, "k")), schedule=self.rng.choice((None, None, Schedule(every_ms=10))),
        )  # fmt: skip
        self.seen.append(f"schedule {entry}")
        return self.places.apply(delayed_rules.schedule, entry)

    def dispatch(self) -> list[Any]:
        entries = [each for each in in_delivery_order(self.places.memory) if each.due_at <= self.now]
        gone = [msgspec.structs.replace(each, id="gone") for each in entries[:1]]
        self.seen.append(f"dispatch {entries}")

        def at_once(tables: PostgresBusTables, given: Sequence[DelayedBroadcast], now: int) -> Any:
            tables.read_entries([each.id for each in given])
            return delayed_rules.dispatch(tables, given, now, partial(record_writes.announce, tables))

        return self.places.apply(delayed_rules.dispatch, [*entries, *gone], self.now, in_sql=at_once)

    def prune(self) -> list[Any]:
        before = self.now - self.rng.choice((-1, 0, 100))
        self.seen.append(f"prune {before}")

        def prune(tables: Any) -> Any:
            pruned = bus_rules.prune(tables, before, 0)
            return pruned.gone, pruned.further is None  # stores number positions differently

        return self.places.apply(prune)


class DifferenceFound(AssertionError):
    """Tables that disagree with those in memory."""

    def __init__(self, what: str, whose: str, wanted: Any, found: Any, seen: Sequence[str]) -> None:
        history = "\n  ".join(seen)
        if isinstance(wanted, dict):
            wanted, found = (
                {name: each[name] for name in each if wanted[name] != found[name]} for each in (wanted, found)
            )
        super().__init__(f"{what} of the {whose} differ after\n  {history}\nwanted {wanted}\nfound  {found}")


def walk_on_bus(rng: random.Random, python: PostgresConnection, functions: PostgresConnection, steps: int = 12) -> None:
    """Plays one history; `DifferenceFound` if the three disagree."""
    with small_bounds(), rolled_back(python), rolled_back(functions):
        BusWalk(rng, Places(python, functions)).go(steps)


@contextmanager
def rolled_back(connection: PostgresConnection) -> Iterator[None]:
    connection.execute("begin")
    try:
        yield
    finally:
        connection.execute("rollback")
