"""Points where a test may kill the process: a no-op unless INTERLOCK_CRASH_AT=n is set; then the n-th call ends it."""

import os
from itertools import count

CRASH_AT = int(os.environ.get("INTERLOCK_CRASH_AT") or 0)
# The exit code that a shell reports for a process killed with signal 9.
CRASH_EXIT_CODE = 137

_calls = count(1)  # `next` is one step for every thread


def crash_point(name: str) -> None:
    """Kills the process at the n-th call. `name` names the boundary, for readers and for counting."""
    if CRASH_AT and next(_calls) == CRASH_AT:
        os.write(2, f"INTERLOCK_CRASH_AT={CRASH_AT}: stopped at {name}\n".encode())
        os._exit(CRASH_EXIT_CODE)
