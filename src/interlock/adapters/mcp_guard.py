"""Runs one command, and sees to it that nothing of it outlives the process that wanted it.

It is run by its path, as a process between the two, and uses the standard library alone.

Rule 1: when the command ends, or whoever wanted it is gone, everything in its process group is killed.
Rule 2: standard input and output are the command's own; of what it says on standard error the end is kept and
told when it is over, so that it neither fills a disk nor disturbs a terminal.
"""

import os
import select
import signal
import subprocess
import sys

# How often it is looked whether the parent lives: nothing tells a process of that on every system.
LOOK_SECONDS = 0.25
TAIL_BYTES = 4_000


def main(parent: int, command: list[str]) -> None:
    """Never returns: its last act is to kill the group that it leads."""
    woken = _woken_by_signals()
    try:
        child = subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603  the host's own file names it
    except OSError as error:
        _tell(f"{command[0]}: {error.strerror}".encode())
        os._exit(127)
    tail = _watched(child, parent, woken)
    if child.returncode is not None:
        _tell(tail + f"\nexit code {child.returncode}".encode())
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _woken_by_signals() -> int:
    """A pipe that can be read when a child ended. A request to end is for the command, which gets it too."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def _watched(child: subprocess.Popen[bytes], parent: int, woken: int) -> bytes:
    """Until the command has ended or the parent is gone; gives the end of what was said on standard error."""
    assert child.stderr is not None, "it was opened as a pipe"
    errors, tail = child.stderr.fileno(), b""
    sources = [errors, woken]
    while child.poll() is None and os.getppid() == parent:
        ready, _, _ = select.select(sources, [], [], LOOK_SECONDS)
        for source in ready:
            said = os.read(source, 65_536)
            if source == errors:
                tail = (tail + said)[-TAIL_BYTES:]
                if not said:
                    sources.remove(errors)
    return tail + _rest(errors)


def _rest(errors: int) -> bytes:
    os.set_blocking(errors, False)
    try:
        return os.read(errors, 65_536)[-TAIL_BYTES:]
    except BlockingIOError:
        return b""


def _tell(text: bytes) -> None:
    os.write(2, text[-TAIL_BYTES:])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
