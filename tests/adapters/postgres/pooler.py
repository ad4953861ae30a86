"""A pooler before a server, as far as a client can see it: the number of its process is not the server's."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

# The message with the number of the process and a secret: its kind and its length.
_KEY = b"K\x00\x00\x00\x0c"


@contextmanager
def pooler_before(server: Path, folder: Path) -> Iterator[Path]:
    """Yields the folder of its socket."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / server.name))
        listening.listen()
        Thread(target=_accept_all, args=(listening, server), daemon=True).start()
        try:
            yield folder
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def _accept_all(listening: socket.socket, server: Path) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            behind = socket.socket(socket.AF_UNIX)
            behind.connect(str(server))
            for source, target in ((client, behind), (behind, client)):
                Thread(target=_copy_all, args=(source, target), daemon=True).start()


def _copy_all(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), source, target:
        while data := source.recv(65_536):
            before, key, after = data.partition(_KEY)
            target.sendall(before + key + bytes([after[0] ^ 1]) + after[1:] if key else data)
        target.shutdown(socket.SHUT_WR)
