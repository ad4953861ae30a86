"""Points where a test may kill the process: no-ops unless INTERLOCK_CRASH_AT is set.

`n` ends the process at the n-th point; `n:text` at the n-th point whose description contains the text, such as
`2:after statement, claim runs`. With INTERLOCK_CRASH_BY=stop the process is stopped there (SIGSTOP).
"""

import os
import signal
from itertools import count

_number, _, CRASH_WITHIN = (os.environ.get("INTERLOCK_CRASH_AT") or "0").partition(":")
CRASH_AT = int(_number)
STOPS = os.environ.get("INTERLOCK_CRASH_BY") == "stop"
# The exit code that a shell reports for a process killed with signal 9.
CRASH_EXIT_CODE = 137

_calls = count(1)  # `next` is one step for every thread


def crash_point(name: str, doing: str = "") -> None:
    """Ends or stops the process at the n-th call. `name` is the boundary, `doing` what is done there."""
    if CRASH_AT and CRASH_WITHIN in f"{name}, {doing}" and next(_calls) == CRASH_AT:
        place = f"{name}, {doing}" if doing else name
        os.write(2, f"INTERLOCK_CRASH_AT={CRASH_AT}: stopped at {place}\n".encode())
        if STOPS:
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            os._exit(CRASH_EXIT_CODE)
