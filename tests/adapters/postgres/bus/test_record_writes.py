"""The functions in SQL do what the rules in Python do, on the bus; and a function that did not would be found."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.adapters.postgres.bus.bus_tables import PostgresBusTables
from interlock.adapters.postgres.bus.record_writes import announce, encode_writes
from interlock.adapters.postgres.runs import transitions
from interlock.adapters.postgres.runs.transitions import RunTransition
from interlock.adapters.store_rules import record_format
from interlock.broadcast.record import PROCESS, Broadcast, Emission
from interlock.broadcast.subscriptions import AgentSubscription
from interlock.engine.events import RunStarted
from interlock.ports import NO_WRITES, AtomicWrites, Record, RunRow
from tests.adapters.postgres.bus.bus_walk import NOW, OWNER, number_of_delivery, rolled_back, walk_on_bus
from tests.adapters.postgres.bus.walking import Stores, require_found, two_stores


@pytest.fixture(scope="module")
def stores() -> Iterator[Stores]:
    with two_stores() as found:
        listed = (
            "insert into owners (id, host, pid, version, rules, format) overriding system value"
            " values (%s, 'h', 1, '1', 1, 1)"
        )
        found[1].execute(listed, (OWNER,))
        yield found


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(st.randoms(use_true_random=False))
def test_memory_rules_and_functions_agree_after_every_step(stores: Stores, rng: random.Random) -> None:
    walk_on_bus(rng, *stores)


PLANTED = [
    ("hears", "p_segments[v_place] <> '*' and", ""),
    ("subscribers_of", "bool_and(s.silent)", "bool_or(s.silent)"),
    ("subscribers_of", "(p_agent = '' or (s.crew, s.agent) <> (p_crew, p_agent))", "true"),
    ("change_presence", "c.delta = 1 and c.runs = 1", "c.delta = 1"),
    ("change_presence", "c.delta = -1 and c.runs = 0", "c.delta = -1"),
    ("change_presence", "where k <> all (r.agents)", "where true"),
    ("apply_batch", "when p.told and", "when"),
    ("refusal_by_rate", "60000", "60001"),
    ("refusal_by_rate", "v_number >= (", "v_number > ("),
    ("refusal_by_rate", "p_hops > (", "p_hops >= ("),
    ("evict_oldest", "order by i.broadcast limit 1", "order by i.broadcast desc limit 1"),
    ("evict_oldest", "'', p_silent", "'', not p_silent"),
    ("deliver_to", "end > v_most", "end >= v_most"),
    ("announce", "where s.crew <> p_crew or s.agent <> all (p_told)", ""),
    ("claim_inbox", "limit p_most", "limit p_most + 1"),
    ("unclaim_inbox", "mailboxes.unread + excluded.unread", "mailboxes.unread"),
    ("trim_dead_letters", "offset p_most", "offset p_most + 1"),
    ("add_dead_letter", "p_from_crew <> ''", "p_from_crew = ''"),
    ("apply_bus", "and b.id = told ->> 1", ""),
    ("apply_bus", "broadcast) do nothing", "broadcast) do update set attempts = 1"),
    ("apply_bus", "if v.place = any (p_fresh) then\n            delete", "if true then\n            delete"),
    ("broadcasts_of_presence", "p_hops[n + 1] as hops", "1 as hops"),
    ("broadcasts_of_presence", "n >= p_ended", "n > p_ended"),
    ("apply_batch", "change_presence(p_presence, p_fresh)", "change_presence(p_presence, p_applied)"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "old", "new"), PLANTED)
def test_a_function_that_differs_is_found(stores: Stores, function: str, old: str, new: str) -> None:
    require_found(walk_on_bus, stores, function, old, new)


def test_two_runs_of_one_batch_do_not_start_with_the_same_delivery(stores: Stores) -> None:
    with rolled_back(stores[1]):
        tables = PostgresBusTables(stores[1])
        tables.put_subscription(AgentSubscription(crew="ci", agent="a", pattern="x", silent=False))
        broadcast = Broadcast(id="b1", type="x", source=PROCESS, created_at=NOW)
        announce(tables, [Emission(broadcast=broadcast)])
        number = number_of_delivery(tables, "ci a b1")
        also = AtomicWrites(heard=((number, "b1"),))
        record = Record(seq=1, at=NOW, events=(RunStarted(crew="ci", input="", rules=1),))
        body = record_format.encode_record(record)
        batch = [
            RunTransition(
                RunRow(run=run, crew="ci", crew_sha="", status="running", created_at=NOW),
                record,
                body,
                also,
                owner=OWNER,
            )
            for run in ("one", "two")
        ]
        answers = transitions.create_runs(stores[1], OWNER, batch, False)
        assert [each.outcome for each in answers] == ["done", "heard"]
        assert tables.delivery(number) is None


def test_a_batch_without_such_writes_has_nothing_to_apply() -> None:
    row = RunRow(run="r", crew="ci", crew_sha="", status="running")
    record = Record(seq=1, at=NOW, events=(RunStarted(crew="ci", input="", rules=1),))
    assert encode_writes([(row, record, NO_WRITES)] * 3) == (None, None, [], None, None)
