"""A model server for benchmarks, in a process of its own: what it costs is not part of what is measured.

Rule 1: it prints its address, and dies when its standard input closes: with whoever started it.
Rule 2: the model's name says what it does: `PIECES/DELAY_MS`, each piece in a packet of its own.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

START_SECONDS = 10

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
MODEL = re.compile(rb'"model": ?"(\d+)/(\d+)"')


def framed(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    body = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(body), body)


def chunk(finish: str | None = None, **delta: str) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


PIECE = framed(chunk(content="so many words, "))
USAGE = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
END = framed(chunk(content="and a number: ")) + b"%s" + framed(chunk("stop"))
REST = framed({**chunk(), "choices": [], "usage": USAGE}) + framed("[DONE]") + b"0\r\n\r\n"


class Server:
    def __init__(self) -> None:
        self.served = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                await self._answer(body, writer)
        writer.close()

    async def _answer(self, body: bytes, writer: asyncio.StreamWriter) -> None:
        asked = MODEL.search(body)
        pieces, delay_ms = (int(asked[1]), int(asked[2])) if asked else (1, 0)
        self.served += 1
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        writer.write(HEAD)
        for _ in range(pieces):
            writer.write(PIECE)
            await asyncio.sleep(0)
        mark = "[END]" if body.count(b'"role":"assistant"') >= 2 else "[NEXT]"
        writer.write(END % framed(chunk(content=f"{self.served}\n{mark}")) + REST)
        await writer.drain()


async def main() -> None:
    server = await asyncio.start_server(Server().serve, "127.0.0.1", 0, backlog=4_096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a server that lives as long as the block, or as this process."""
    child = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        yield child.stdout.readline().strip()
    finally:
        child.stdin.close()
        child.stdout.close()
        try:
            child.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


if __name__ == "__main__":
    asyncio.run(main())
