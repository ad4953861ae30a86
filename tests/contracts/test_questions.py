"""What every store promises of deadlines of questions, and of the order in which records become visible."""

import asyncio

from interlock.ports import AtomicWrites, OpenQuestion, RunQuestions
from tests.contracts.places import NOW, place
from tests.contracts.test_journal import Place, Store, a_row, replied, started

__all__ = ["place"]


def question(token: str, until: int, run: str = "r1") -> OpenQuestion:
    return OpenQuestion(
        id=token, run=run, crew="quiz", agent="a", reason="input", question="?", token=token, since=NOW, until=until
    )


async def ask(store: Store, run: str, *questions: OpenQuestion) -> None:
    asking = RunQuestions(run=run, questions=questions)
    await store.create(a_row(run, status="paused"), started(), AtomicWrites(asking=asking))


async def test_overdue_questions_are_found_the_longest_overdue_first(place: Place) -> None:
    async with place.opened() as store:
        late, later = question("late", NOW + 1), question("later", NOW + 2, "r2")
        await ask(store, "r2", later, question("open", 0, "r2"))
        await ask(store, "r1", late, question("early", NOW + 9))
        other = place.open()
        assert list(await other.overdue_questions(NOW, 10)) == []
        assert list(await other.overdue_questions(NOW + 2, 10)) == [late, later]
        assert list(await other.overdue_questions(NOW + 2, 1)) == [late]
        await store.append(a_row(), replied(3), AtomicWrites(asking=RunQuestions(run="r1")))
        assert list(await other.overdue_questions(NOW + 9, 10)) == [later]


async def test_positions_become_visible_in_order(place: Place) -> None:
    """Two processes append at once; what a reader has seen is never followed by something smaller."""
    async with place.opened() as store:
        stores, seen, done = (store, place.open()), list[int](), asyncio.Event()

        async def append_all(number: int) -> None:
            run = f"r{number}"
            await stores[number].create(a_row(run), started())
            for seq in range(3, 30):
                await stores[number].append(a_row(run), replied(seq))

        async def read_all() -> None:
            while not done.is_set() or len(seen) < 56:
                seen.extend([each.position for each in await store.since(seen[-1] if seen else 0, 5)])
                await asyncio.sleep(0)

        reading = asyncio.create_task(read_all())
        await asyncio.gather(append_all(0), append_all(1))
        done.set()
        await reading
        assert len(seen) == 56
        assert seen == sorted(seen)
