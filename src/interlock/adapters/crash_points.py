"""Where a test may kill the process: a no-op unless INTERLOCK_CRASH_AT=n is set, then the n-th call is the last."""

import os
from itertools import count

CRASH_AT = int(os.environ.get("INTERLOCK_CRASH_AT") or 0)
# What a shell reports of a process that was killed with signal 9.
CRASH_EXIT_CODE = 137

_calls = count(1)  # `next` is one step for every thread


def crash_point(name: str) -> None:
    """`name` says which boundary this is, for whoever reads the code or counts the calls."""
    if CRASH_AT and next(_calls) == CRASH_AT:
        os.write(2, f"INTERLOCK_CRASH_AT={CRASH_AT}: stopped at {name}\n".encode())
        os._exit(CRASH_EXIT_CODE)
