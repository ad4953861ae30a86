"""A model on this machine, without key and network: llama.cpp in its own process, called like any server.

Rule 1: the process starts with the first call, serves all runs, and ends with its owner, even if that is killed. If it
dies, the next call starts it again.
Rule 2: a small model does not always finish. Constrained replies have at most two sentences; the others are cut off at
`TOKENS_MAX`, which is a failed call like every incomplete reply.
"""

import asyncio
import secrets
import sys
from asyncio import StreamReader
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

from interlock.adapters.config.known_secrets import KnownSecrets
from interlock.adapters.models.local import local_files
from interlock.adapters.models.openai.client import OpenAICompatibleModel
from interlock.adapters.models.openai.constrained_decoding import GRAMMAR
from interlock.adapters.models.openai.endpoint import CallLimits, Endpoint, Server
from interlock.adapters.models.typed_output import SCHEMA as BY_SCHEMA
from interlock.errors import ModelRefused, ModelUnavailable
from interlock.ports import Delta, ModelReply, ModelRequest

SERVER = Path(__file__).with_name("local_server.py")

SENTENCES_MAX = 2
TOKENS_MAX = 512

# A second is usual, for a hundred megabytes.
START_SECONDS = 60
END_SECONDS = 5

# Calls queue for the one thread that computes.
LIMITS = CallLimits(first_byte_seconds=600, idle_seconds=60, total_seconds=600)


class LocalModel:
    """One model file, and the process that serves it."""

    def __init__(self, name: str, file: Path, keys: KnownSecrets | None = None) -> None:
        self.name, self._file, self._keys = f"{local_files.LOCAL}:{name}", file, keys
        self._process: Process | None = None
        self._client: OpenAICompatibleModel | None = None
        self._starting = asyncio.Lock()

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        pieces = (await self._ensure_client()).reply(request)
        assert isinstance(pieces, AsyncGenerator), "a client's reply is one"
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        client, self._client = self._client, None
        process, self._process = self._process, None
        if client is not None:
            await client.close()
        if process is not None:
            await _end_process(process)

    async def _ensure_client(self) -> OpenAICompatibleModel:
        async with self._starting:
            if self._process is not None and self._process.returncode is not None:
                await self.close()
            if self._client is None:
                self._client = await self._start_server()
            return self._client

    async def _start_server(self) -> OpenAICompatibleModel:
        # Its own session: a Ctrl-C is for the owner, which ends it. Nothing is imported from the current folder.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(SERVER), str(self._file)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        try:
            key = secrets.token_urlsafe()
            url = await self._read_address(process, key)
        except BaseException:
            await _end_process(process)
            raise
        self._process = process
        return OpenAICompatibleModel(
            self._endpoint(url, key), self.name, keys=self._keys, extra={"max_tokens": TOKENS_MAX}
        )

    async def _read_address(self, process: Process, key: str) -> str:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        process.stdin.write(f"{key}\n".encode())
        said = ""
        try:
            async with asyncio.timeout(START_SECONDS):
                while data := await _read_line(process.stdout):
                    line = data.decode("utf-8", "replace").strip()
                    if line.startswith("http://"):
                        return line
                    said = line or said
        except TimeoutError:
            raise ModelUnavailable(f"{self.name} was not ready after {START_SECONDS} s") from None
        why = said[:300] or "it said nothing"
        raise ModelRefused(f"{self.name} did not start from {self._file}: {why}; {self._advice()}")

    def _advice(self) -> str:
        if self._file.stem in local_files.FETCHABLE:
            return f"if the file is damaged, 'interlock model get {self._file.stem}' downloads it again"
        return "is the file complete, and a GGUF model?"

    def _endpoint(self, url: str, key: str) -> Endpoint:
        return Endpoint(
            server=Server(f"{self.name} on this machine"),
            url=f"{url}/v1",
            provider=local_files.LOCAL,
            source=local_files.LOCAL,
            key=key,
            limits=LIMITS,
            constrains=GRAMMAR,
            outputs=BY_SCHEMA,
            takes_bounds=True,
            sentences=SENTENCES_MAX,
        )


async def _read_line(output: StreamReader) -> bytes:
    """The next line, empty at the end; for a line that is too long, only its break."""
    try:
        return await output.readline()
    except ValueError:
        return b"\n"


async def _end_process(process: Process) -> None:
    """Ends the process: it exits when its input ends, unless it hangs."""
    assert process.stdin is not None, "it is a pipe"
    process.stdin.close()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
