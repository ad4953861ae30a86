"""A model on this machine, with no key and no network: llama.cpp in a process of its own, asked like any server.

Rule 1: the process starts with the first call, answers all runs, and ends with the box; whatever happens to the owner,
it does not outlive it. One that died is started anew by the next call.
Rule 2: a small model does not always come to an end. Constrained replies have at most two sentences; the others are cut
off at `TOKENS_MAX`, which is a failed call like every reply that is not whole.
"""

import asyncio
import secrets
import sys
from asyncio import StreamReader
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

from interlock.adapters.models import local_files
from interlock.adapters.models.constraining import GRAMMAR
from interlock.adapters.models.endpoint import CallLimits, Endpoint, Server
from interlock.adapters.models.known_keys import KnownKeys
from interlock.adapters.models.openai_compatible import OpenAICompatibleModel
from interlock.errors import ModelRefused, ModelUnavailable
from interlock.ports import Delta, ModelReply, ModelRequest

SERVER = Path(__file__).with_name("local_server.py")

SENTENCES_MAX = 2
TOKENS_MAX = 512

# A second is usual, for a hundred megabytes.
START_SECONDS = 60
END_SECONDS = 5

# Calls stand in line for the one thread that computes.
LIMITS = CallLimits(first_byte_seconds=600, idle_seconds=60, total_seconds=600)


class LocalModel:
    """One model file, and the process that it is served by."""

    def __init__(self, name: str, file: Path, keys: KnownKeys | None = None) -> None:
        self.name, self._file, self._keys = f"{local_files.LOCAL}:{name}", file, keys
        self._process: Process | None = None
        self._client: OpenAICompatibleModel | None = None
        self._starting = asyncio.Lock()

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        pieces = (await self._served()).reply(request)
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
            await _ended(process)

    async def _served(self) -> OpenAICompatibleModel:
        async with self._starting:
            if self._process is not None and self._process.returncode is not None:
                await self.close()
            if self._client is None:
                self._client = await self._started()
            return self._client

    async def _started(self) -> OpenAICompatibleModel:
        # Its own session: a Ctrl-C is for the owner, who ends it. Nothing is imported from the folder we stand in.
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(SERVER), str(self._file)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )
        try:
            key = secrets.token_urlsafe()
            url = await self._address(process, key)
        except BaseException:
            await _ended(process)
            raise
        self._process = process
        return OpenAICompatibleModel(
            self._endpoint(url, key), self.name, keys=self._keys, extra={"max_tokens": TOKENS_MAX}
        )

    async def _address(self, process: Process, key: str) -> str:
        assert process.stdin is not None and process.stdout is not None, "both are pipes"
        process.stdin.write(f"{key}\n".encode())
        said = ""
        try:
            async with asyncio.timeout(START_SECONDS):
                while data := await _line(process.stdout):
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
            return f"if the file is damaged, 'interlock model get {self._file.stem}' fetches it anew"
        return "is the file whole, and a model in GGUF?"

    def _endpoint(self, url: str, key: str) -> Endpoint:
        return Endpoint(
            server=Server(f"{self.name} on this machine"),
            url=f"{url}/v1",
            key=key,
            limits=LIMITS,
            constrains=GRAMMAR,
            sentences=SENTENCES_MAX,
        )


async def _line(output: StreamReader) -> bytes:
    """The next line, nothing at the end; of one that is too long to be looked at, just its break."""
    try:
        return await output.readline()
    except ValueError:
        return b"\n"


async def _ended(process: Process) -> None:
    """It ends when its input does, unless it hangs."""
    assert process.stdin is not None, "it is a pipe"
    process.stdin.close()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
