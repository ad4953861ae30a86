"""A streamed call with the openai SDK and with pydantic-ai's direct API, one after the other and many at once."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest, TextPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bench.harness import measure_async
from bench.model_calls import CALLS, MODEL, TOGETHER, in_a_row, together

Call = Callable[[], Awaitable[str]]


def openai_call(client: Any) -> Call:
    async def call() -> str:
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        return "".join(pieces)

    return call


def pydantic_call(client: Any) -> Call:
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))

    async def call() -> str:
        messages = [ModelRequest.user_text_prompt("hi", instructions="be kind")]
        async with model_request_stream(model, messages) as stream:
            async for _ in stream:
                pass
            return "".join(part.content for part in stream.get().parts if isinstance(part, TextPart))

    return call


async def main(url: str) -> None:
    client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    peers = {f"openai {version('openai')}": openai_call(client)}
    peers[f"pydantic-ai-slim {version('pydantic-ai-slim')}"] = pydantic_call(client)
    for name, call in peers.items():
        assert (await call()).endswith(("[NEXT]", "[END]"))
        one = await measure_async(lambda call=call: in_a_row(call), CALLS, repeats=3)  # type: ignore[misc]
        many = await measure_async(lambda call=call: together(call), TOGETHER, repeats=3)  # type: ignore[misc]
        print(json.dumps({"peer": name, "one": one, "many": many}), flush=True)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main((Path(sys.argv[1]) / "url.txt").read_text("utf-8")))
