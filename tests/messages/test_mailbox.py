"""Mailboxes: who owes what to whom, until when; what is refused, and that nothing is lost."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.messages import (
    Answer,
    Delegate,
    DuplicateMessage,
    LateMessage,
    OutOfTurn,
    Overdue,
    Query,
    Report,
    UnknownAddressee,
    WrongConversation,
)
from interlock.messages.mailbox import OUTCOMES, Mailbox, transfer_message

TASK = Delegate(message_id="m1", from_="root", to="flights", task="Find flights")
DONE = Report(message_id="m2", from_="flights", to="root", result="Three", in_response_to="m1")
ASKED = Query(message_id="m3", from_="flights", to="root", question="Price or comfort?")
SAID = Answer(message_id="m4", from_="root", to="flights", answer="Price", in_response_to="m3")


def pair() -> dict[str, Mailbox]:
    return {name: Mailbox(name) for name in ("root", "flights", "hotels")}


def test_what_asks_is_pending_until_it_is_answered() -> None:
    box = Mailbox("root")
    box.send(TASK)
    assert list(box.outbox) == [TASK]
    assert box.pending_responses == {"m1": TASK}
    box.acknowledge("m1")
    assert box.pending_responses == {"m1": TASK}, "received is not answered"
    box.acknowledge("m1", DONE)
    assert box.pending_responses == {}
    assert box.settled == {"m1": "answered"}


def test_what_asks_for_nothing_is_never_pending() -> None:
    box = Mailbox("flights")
    box.send(DONE)
    assert box.pending_responses == {}
    box.acknowledge("m2")
    assert box.settled == {"m2": "answered"}


def test_messages_are_received_in_the_order_in_which_they_came() -> None:
    box = Mailbox("root")
    box.send(TASK)
    box.deliver(ASKED)
    box.deliver(DONE)
    assert [box.receive(), box.receive(), box.receive()] == [ASKED, DONE, None]


def test_the_inbox_is_a_queue_too() -> None:
    box = Mailbox("root")
    box.inbox.put(ASKED)
    assert (box.inbox.empty(), box.inbox.qsize()) == (False, 1)
    assert box.inbox.get() == ASKED
    assert box.receive() is None


def test_a_reply_is_owed_from_delivery_until_it_is_sent() -> None:
    boxes = pair()
    boxes["root"].send(TASK)
    transfer_message(boxes, TASK)
    assert boxes["flights"].owes == {"m1": TASK}
    boxes["flights"].send(DONE)
    assert boxes["flights"].owes == {}


def test_the_post_carries_a_conversation_back_and_forth() -> None:
    boxes = pair()
    for message in (TASK, ASKED, SAID, DONE):
        boxes[message.sender].send(message)
        assert transfer_message(boxes, message) is None
    assert boxes["root"].settled == {"m1": "answered", "m4": "answered"}
    assert boxes["flights"].settled == {"m3": "answered", "m2": "answered"}
    assert not any(box.sent or box.owes or box.outbox for box in boxes.values())


def test_the_same_id_again_is_the_same_message() -> None:
    box = Mailbox("flights")
    assert box.deliver(TASK) is True
    assert box.deliver(TASK) is False
    assert list(box.inbox) == [TASK]


def test_the_same_id_with_another_type_is_refused() -> None:
    box = Mailbox("root")
    box.deliver(ASKED)
    odd = Report(message_id="m3", from_="flights", to="root", result="x", in_response_to="m1")
    with pytest.raises(DuplicateMessage):
        box.deliver(odd)


def test_nothing_is_sent_twice() -> None:
    box = Mailbox("root")
    box.send(TASK)
    with pytest.raises(DuplicateMessage, match="m1"):
        box.send(TASK)


def test_nobody_sends_in_another_name() -> None:
    with pytest.raises(WrongConversation, match="'hotels' cannot send what is from 'root'"):
        Mailbox("hotels").send(TASK)


def test_a_message_for_somebody_else_is_refused() -> None:
    with pytest.raises(UnknownAddressee, match="no 'flights'"):
        Mailbox("hotels").deliver(TASK)


def test_a_message_to_nobody_is_refused_and_settled() -> None:
    boxes = pair()
    odd = Delegate(message_id="m9", from_="root", to="flihgts", task="Find")
    boxes["root"].send(odd)
    refusal = transfer_message(boxes, odd)
    assert isinstance(refusal, UnknownAddressee)
    assert "did you mean 'flights'?" in str(refusal)
    assert refusal.code == "unknown-agent"
    assert boxes["root"].settled == {"m9": "refused"}


def test_an_answer_to_what_was_never_asked_belongs_to_another_conversation() -> None:
    with pytest.raises(WrongConversation, match="'m1', which 'root' never sent"):
        Mailbox("root").deliver(DONE)


def test_an_answer_from_somebody_else_is_refused() -> None:
    box = Mailbox("root")
    box.send(TASK)
    with pytest.raises(WrongConversation, match="sent to 'flights', and 'hotels' answers it"):
        box.deliver(Report(message_id="x", from_="hotels", to="root", result="mine", in_response_to="m1"))


def test_an_answer_of_the_wrong_type_is_out_of_turn() -> None:
    box = Mailbox("root")
    box.send(TASK)
    with pytest.raises(OutOfTurn, match="a DELEGATE is answered by REPORT, not ANSWER"):
        box.deliver(Answer(message_id="x", from_="flights", to="root", answer="?", in_response_to="m1"))


def test_one_message_is_not_acknowledged_by_the_answer_to_another() -> None:
    root = Mailbox("root")
    for id_ in ("1", "2"):
        root.send(Delegate(message_id=id_, from_="root", to="flights", task="go"))
    to_two = Report(message_id="3", from_="flights", to="root", result="x", in_response_to="2")
    with pytest.raises(WrongConversation, match="it answers '2', and not '1'"):
        root.acknowledge("1", to_two)
    assert (root.settled, list(root.sent)) == ({}, ["1", "2"])


def test_what_is_undelivered_is_not_carried_any_more() -> None:
    root = Mailbox("root", ack_timeout_ms=10)
    root.send(Delegate(message_id="1", from_="root", to="flights", task="go"), now_ms=0)
    root.expire_overdue(10)
    assert len(root.outbox) == 2, "nobody carries it"
    root.expire_overdue(20)
    assert (root.settled, list(root.outbox)) == ({"1": "undelivered"}, [])


def test_a_late_answer_is_refused_with_what_became_of_the_question() -> None:
    box = Mailbox("root", ack_timeout_ms=10, answer_timeout_ms=20)
    box.send(TASK, now_ms=0)
    box.acknowledge("m1")
    assert box.expire_overdue(20) == [Overdue(message=TASK, outcome="timed_out")]
    with pytest.raises(LateMessage, match="timed_out"):
        box.deliver(DONE)
    with pytest.raises(LateMessage):
        box.acknowledge("m1")


def test_a_second_report_on_a_task_is_late() -> None:
    box = Mailbox("root")
    box.send(TASK)
    box.deliver(DONE)
    with pytest.raises(LateMessage, match="answered"):
        box.deliver(Report(message_id="m8", from_="flights", to="root", result="again", in_response_to="m1"))


def test_what_was_never_sent_cannot_be_acknowledged() -> None:
    with pytest.raises(WrongConversation, match="has sent no message 'm7'"):
        Mailbox("root").acknowledge("m7")


def test_without_an_acknowledgement_it_is_sent_again_and_then_undelivered() -> None:
    box = Mailbox("root", ack_timeout_ms=30_000)
    box.send(TASK, now_ms=5)
    assert box.next_due_ms == 30_005
    assert box.expire_overdue(30_004) == []
    assert box.expire_overdue(30_005) == [Overdue(message=TASK)]
    assert list(box.outbox) == [TASK, TASK]
    assert box.next_due_ms == 60_005
    assert box.expire_overdue(60_005) == [Overdue(message=TASK, outcome="undelivered")]
    assert box.settled == {"m1": "undelivered"}
    assert box.next_due_ms is None


def test_an_acknowledged_message_has_the_longer_deadline() -> None:
    box = Mailbox("root", ack_timeout_ms=30, answer_timeout_ms=600)
    box.send(TASK)
    box.acknowledge("m1")
    assert box.next_due_ms == 600
    assert box.expire_overdue(599) == []


def test_a_resent_message_that_came_through_the_first_time_is_recognised() -> None:
    """The acknowledgement was lost, not the message."""
    boxes = pair()
    boxes["root"].send(TASK)
    boxes["flights"].deliver(TASK)
    assert boxes["root"].expire_overdue(30_000) == [Overdue(message=TASK)]
    assert transfer_message(boxes, TASK) is None
    assert list(boxes["flights"].inbox) == [TASK]
    assert boxes["root"].sent["m1"].acknowledged


def test_it_survives_a_trip_through_json() -> None:
    boxes = pair()
    boxes["root"].send(TASK, now_ms=7)
    transfer_message(boxes, TASK)
    boxes["flights"].send(ASKED)
    for box in boxes.values():
        again = Mailbox.restore(json.loads(json.dumps(box.snapshot())))
        assert again == box
        assert again.snapshot() == box.snapshot()


# What happens to a task on its way: it or its acknowledgement is lost, it comes twice, the answer comes or not.
Luck = st.fixed_dictionaries(
    {"lost": st.booleans(), "ack_lost": st.booleans(), "twice": st.booleans(), "answers": st.booleans()}
)


@given(st.lists(Luck, max_size=12), st.lists(st.integers(0, 400), min_size=8, max_size=30))
def test_whatever_is_lost_or_doubled_every_message_is_settled_once(
    lucks: list[dict[str, bool]], ticks: list[int]
) -> None:
    root, child = Mailbox("root", 100, 300), Mailbox("flights", 100, 300)
    for n, _ in enumerate(lucks):
        root.send(Delegate(message_id=f"t{n}", from_="root", to="flights", task="go"))
    now = 0
    for tick in [*ticks, *[300] * 8]:
        now += tick
        for message in list(root.outbox):
            root.outbox.remove(message)
            luck = lucks[int(message.message_id[1:])]
            if luck["lost"]:
                continue
            for _ in range(1 + luck["twice"]):
                child.deliver(message)
            if not luck["ack_lost"] and message.message_id in root.sent:
                root.acknowledge(message.message_id)
        while (task := child.receive()) is not None:
            if lucks[int(task.message_id[1:])]["answers"]:
                reply = Report(
                    message_id=f"r{task.message_id}",
                    from_="flights",
                    to="root",
                    result="x",
                    in_response_to=task.message_id,
                )
                root.deliver(reply)
        root.expire_overdue(now)
    assert list(root.sent) == []
    assert Counter(root.settled.values()).total() == len(lucks)
    assert set(root.settled.values()) <= set(OUTCOMES)
    assert [root.settled[f"t{n}"] for n, luck in enumerate(lucks)] == [_fate(luck) for luck in lucks]


def _fate(luck: dict[str, bool]) -> str:
    if luck["lost"]:
        return "undelivered"
    if luck["answers"]:
        return "answered"
    return "undelivered" if luck["ack_lost"] else "timed_out"
