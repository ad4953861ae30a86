"""SQL that counts rows for monitoring."""

import sqlite3

from interlock.adapters.sqlite.tables.schedules import read_schedules
from interlock.ports import FolderCounts

# Crews and statuses that are counted separately.
CREWS_MAX = 200


def folder_counts(connection: sqlite3.Connection) -> FolderCounts:
    runs = connection.execute(
        "select crew, status, count(*) from runs where status in ('running', 'paused')"
        " group by crew, status order by crew, status limit ?",
        (CREWS_MAX,),
    ).fetchall()
    questions, oldest = connection.execute("select count(*), coalesce(min(since), 0) from questions").fetchone()
    waiting, dead = connection.execute(
        "select coalesce(sum(dead = 0), 0), coalesce(sum(dead <> 0), 0) from webhook_letters"
    ).fetchone()
    (broadcasts_dead,) = connection.execute("select count(*) from dead").fetchone()
    schedules = read_schedules(connection)
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
