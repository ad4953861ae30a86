"""Runs one command, and ensures that none of its processes outlives the process that started it.

It is run by its path, as a process between the two, and uses only the standard library.

Rule 1: when the command ends, or its owner is gone, everything in its process group is killed.
Rule 2: standard input and output are the command's own; the end of its standard error is kept and printed when it
ends, so that it neither fills a disk nor disturbs a terminal.
"""

import os
import select
import signal
import subprocess
import sys

# How often it checks that the parent lives: no portable notification exists.
LOOK_SECONDS = 0.25
TAIL_BYTES = 4_000


def main(parent: int, command: list[str]) -> None:
    """Runs the command. Never returns: at the end it kills its own process group."""
    woken = _open_wakeup_pipe()
    try:
        child = subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603  the host's own file names it
    except OSError as error:
        _write_stderr(f"{command[0]}: {error.strerror}".encode())
        os._exit(127)
    tail = _watch_child(child, parent, woken)
    if child.returncode is not None:
        _write_stderr(tail + f"\nexit code {child.returncode}".encode())
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _open_wakeup_pipe() -> int:
    """A pipe that is readable when a child has ended. Termination signals are for the command, which gets them too."""
    reading, writing = os.pipe()
    for end in (reading, writing):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reading


def _watch_child(child: subprocess.Popen[bytes], parent: int, woken: int) -> bytes:
    """Waits until the command has ended or the parent is gone; returns the end of its standard error."""
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
    return tail + _read_rest(errors)


def _read_rest(errors: int) -> bytes:
    os.set_blocking(errors, False)
    try:
        return os.read(errors, 65_536)[-TAIL_BYTES:]
    except BlockingIOError:
        return b""


def _write_stderr(text: bytes) -> None:
    os.write(2, text[-TAIL_BYTES:])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
