"""A model server for benchmarks, in its own process: its cost is not measured.

Rule 1: it prints its address, and dies when its standard input closes: with the process that started it.
Rule 2: the model's name sets the reply: `PIECES/DELAY_MS`, each piece in its own packet. `PIECES/DELAY_MS/MORE` sends
its signal and continues for MORE pieces, at the pace of a fast model; it stops when the client disconnects.
Rule 3: `generated` counts the pieces of such replies; GET returns it.
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
MODEL = re.compile(rb'"model": ?"(\d+)/(\d+)(?:/(\d+))?"')

# 200 tokens a second.
PACE_SECONDS = 0.005


def framed(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value)
    body = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(body), body)


def chunk(finish: str | None = None, **delta: str) -> dict[str, object]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


PIECE = framed(chunk(content="so many words, "))
TOKEN, MARK_AMID = framed(chunk(content="word ")), framed(chunk(content="\n[END]\n"))
END = framed(chunk(content="and a number: ")) + b"%s" + framed(chunk("stop"))


def rest(tokens: int) -> bytes:
    usage = {"prompt_tokens": 9, "completion_tokens": tokens, "total_tokens": 9 + tokens}
    return framed({**chunk(), "choices": [], "usage": usage}) + framed("[DONE]") + b"0\r\n\r\n"


REST = rest(9)


class Server:
    def __init__(self) -> None:
        self.served = self.generated = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                found = LENGTH.search(head)
                body = await reader.readexactly(int(found[1]) if found else 0)
                if head.startswith(b"GET"):
                    count = b"%d" % self.generated
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(count), count))
                else:
                    await self._answer(body, reader, writer)
        writer.close()

    async def _answer(self, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = MODEL.search(body)
        pieces, delay_ms = (int(asked[1]), int(asked[2])) if asked else (1, 0)
        self.served += 1
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        writer.write(HEAD)
        if asked and asked[3]:
            await self._ramble(pieces, int(asked[3]), reader, writer)
        else:
            for _ in range(pieces):
                writer.write(PIECE)
                await asyncio.sleep(0)
            mark = "[END]" if body.count(b'"role":"assistant"') >= 2 else "[NEXT]"
            writer.write(END % framed(chunk(content=f"{self.served}\n{mark}")) + REST)
        await writer.drain()

    async def _ramble(self, pieces: int, more: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for n in range(pieces + more):
            if reader.at_eof() or reader.exception() is not None:
                raise ConnectionResetError("the client disconnected")
            if n == pieces:
                writer.write(MARK_AMID)
            writer.write(TOKEN)
            self.generated += 1
            await asyncio.sleep(PACE_SECONDS)
        writer.write(framed(chunk("stop")) + rest(pieces + more))


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
