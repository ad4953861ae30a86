"""A process that moves stores in small pages. Each move is a process of its own, which a crash point ends.

Reads lines `CRASH_AT FROM TO`, and answers each with the exit code of the move.
"""

import os
import sys
from itertools import count

from interlock.adapters import crash_points
from interlock.adapters.postgres import moving as postgres_moving
from interlock.adapters.sqlite import moving as sqlite_moving
from interlock.compose.stores.homes import home_of
from interlock.compose.upkeep.store_move import move_store


def move_in_child(crash_at: int, source: str, target: str) -> int:
    child = os.fork()
    if child == 0:
        crash_points.CRASH_AT, crash_points._calls = crash_at, count(1)
        move_store(home_of(source), home_of(target))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    for module in (postgres_moving, sqlite_moving):
        vars(module)["MOVED_ROWS_MAX"] = 3
    for line in sys.stdin:
        crash_at, source, target = line.split()
        os.write(1, b"%d\n" % move_in_child(int(crash_at), source, target))
