"""What every way of deltas promises: those who subscribe get the deltas of a run and all below it, in order."""

import pytest

from interlock.adapters.process_deltas import ProcessDeltas
from interlock.ports import ALL_RUNS, Deltas, RunDelta


@pytest.fixture(params=["process"])
def deltas() -> Deltas:
    return ProcessDeltas()


def delta(run: str, text: str = "so", seq: int = 3) -> RunDelta:
    return RunDelta({"run": run, "type": "model.delta", "agent": "a", "text": text}, seq)


def test_a_subscriber_gets_the_deltas_of_its_run_and_of_those_below_in_their_order(deltas: Deltas) -> None:
    got: list[RunDelta] = []
    deltas.subscribe("r1", got.append)
    sent = [delta("r1", "one"), delta("r1~4.0", "two"), delta("r1~4.0~2.0", "three"), delta("r1", "four")]
    for each in (*sent, delta("r2"), delta("r10")):
        deltas.publish(each)
    assert got == sent


def test_a_subscriber_of_all_runs_gets_every_delta_once(deltas: Deltas) -> None:
    got: list[RunDelta] = []
    deltas.subscribe(ALL_RUNS, got.append)
    sent = [delta("r1"), delta("r2~4.0")]
    for each in sent:
        deltas.publish(each)
    assert got == sent


def test_deltas_are_wanted_while_somebody_subscribes(deltas: Deltas) -> None:
    first: list[RunDelta] = []
    second: list[RunDelta] = []
    assert not deltas.wanted
    stops = [deltas.subscribe("r1", first.append), deltas.subscribe("r1", second.append)]
    assert deltas.wanted
    deltas.publish(delta("r1", "one"))
    stops[0]()
    deltas.publish(delta("r1", "two"))
    stops[1]()
    deltas.publish(delta("r1", "three"))
    assert ([each.event["text"] for each in first], [each.event["text"] for each in second]) == (
        ["one"],
        ["one", "two"],
    )
    assert not deltas.wanted


def test_a_subscriber_may_end_its_subscription_when_it_is_called(deltas: Deltas) -> None:
    got: list[str] = []

    def once(_: RunDelta) -> None:
        got.append("once")
        stop()

    stop = deltas.subscribe("r1", once)
    deltas.subscribe("r1", lambda _: got.append("always"))
    for _ in range(2):
        deltas.publish(delta("r1"))
    assert got == ["once", "always", "always"]
