"""SQL that counts rows for monitoring."""

from interlock.adapters.postgres.connection import PostgresConnection
from interlock.adapters.postgres.tables.schedules import read_run_schedules
from interlock.ports import FolderCounts

# Crews and statuses that are counted separately.
CREWS_MAX = 200

_COUNTS = """
select
    (select count(*) from questions), (select coalesce(min(since), 0) from questions),
    (select count(*) from webhook_letters where not dead), (select count(*) from webhook_letters where dead),
    (select count(*) from dead)
"""


def store_counts(connection: PostgresConnection) -> FolderCounts:
    runs = connection.execute(
        "select crew, status, count(*) from runs where status in ('running', 'paused')"
        " group by crew, status order by crew, status limit %s",
        (CREWS_MAX,),
    ).fetchall()
    counts = connection.execute(_COUNTS).fetchone()
    assert counts is not None, "a select without a table has a row"
    questions, oldest, waiting, dead, broadcasts_dead = counts
    schedules = read_run_schedules(connection)
    due = [each.due_at for each in schedules if not each.paused and not each.is_over]
    return FolderCounts(
        runs=tuple((str(crew), str(status), int(count)) for crew, status, count in runs),
        questions=questions,
        oldest_question_at=oldest,
        letters_waiting=waiting,
        letters_dead=dead,
        broadcasts_dead=broadcasts_dead,
        schedules=len(schedules),
        schedules_failed=sum(1 for each in schedules if each.problem),
        next_schedule_at=min(due, default=0),
    )
