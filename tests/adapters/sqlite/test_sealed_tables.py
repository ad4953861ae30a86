"""Sealed tables that were made again with more columns keep their rows, and fill the new columns from them."""

from contextlib import closing
from pathlib import Path
from zlib import crc32

import msgspec

from interlock.adapters.files.data_folder import DATABASE
from interlock.adapters.sqlite import migrations
from interlock.adapters.sqlite.sealed_tables import PROCESSES
from interlock.ports import OpenQuestion, OutgoingSignal
from tests.adapters.stores import opened

LATE, OPEN = (
    OpenQuestion(
        id=token, run="r", crew="c", agent="a", reason="input", question="?", token=token, since=1, until=until
    )
    for token, until in (("late", 500), ("open", 0))
)


async def test_a_folder_of_the_schema_before_keeps_its_questions_and_signals(tmp_path: Path) -> None:
    before = migrations.MIGRATIONS.index(PROCESSES)
    with closing(migrations.connect(tmp_path / DATABASE, "rwc")) as connection:
        for statement in (each for _, statements in migrations.MIGRATIONS[:before] for each in statements):
            connection.execute(statement)
        for question in (LATE, OPEN):
            body = msgspec.json.encode(question)
            connection.execute(
                "insert into questions (token, run, since, body, crc) values (?, 'r', 1, ?, ?)",
                (question.token, body, crc32(body)),
            )
        connection.execute("insert into questions (token, run, since, body, crc) values ('odd', 'r', 1, x'00', 1)")
        connection.execute("insert into outbox (key, run, body) values ('k', 'r', x'7b7d')")
        connection.execute(f"pragma application_id = {migrations.APPLICATION_ID:d}")
        connection.execute(f"pragma user_version = {before:d}")
    async with opened(tmp_path) as store:
        assert await store.overdue_questions(499, 10) == []
        assert await store.overdue_questions(500, 10) == [LATE]
        assert list(await store.claim_signals(1, 10)) == [OutgoingSignal(key="k", run="r", body=b"{}")]
        assert await store.set_asides(10) == []
