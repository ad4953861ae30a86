"""A program announces builds, as a webhook would; two agents react, and a reminder fires if none does in time.

Run it with `python examples/build-watch/watch.py`. It needs no key: a function replies for the agents.
Give `Interlock` a host file instead of `models` to use real models.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock import Interlock, ModelRequest, load_crew

HERE = Path(__file__).parent

# Time limit for a reaction to a build.
PATIENCE_MS = 1_500


def speak(request: ModelRequest) -> str:
    """Replies for the agents. The herald does not react to the build of the cellar."""
    heard = request.messages[-1].text
    if request.agent == "chronicler":
        builds = sum("build:" in message.text for message in request.messages)
        return f"I have heard of {builds} builds.\n[DONE]"
    if "build:cellar:done" in heard:
        return "I would rather not say.\n[DONE]"
    return "The shop is built, come and see.\n[TOLD] [DONE]"


async def builds(box: Interlock) -> None:
    """Announces a build and schedules a reminder, as a server does for a webhook."""
    for name in ("shop", "cellar"):
        await box.signals.as_webhook("ci").emit(f"build:{name}:done", {"commit": "4f1c"})
        await box.signals.schedule(f"build:{name}:unheard", in_ms=PATIENCE_MS, repeat_key=name)


async def watch(box: Interlock) -> None:
    """Cancels the reminder if the herald has reacted, and prints a warning if it has not."""
    async for _, signal in box.signals.stream(0):
        if signal.source.type == "system":
            continue
        print(f"{signal.type:<26} from {signal.source.type} {signal.source.id}".rstrip(), flush=True)
        if signal.type == "crew:build-watch:told":
            await box.signals.cancel(type="build:shop:unheard", repeat_key="shop")
        if signal.type.endswith(":unheard"):
            return


async def main() -> None:
    with TemporaryDirectory() as data:
        async with Interlock(data, models=speak, recover=True) as box:
            crew = load_crew(HERE)
            await box.listen(crew)
            async with asyncio.timeout(30), asyncio.TaskGroup() as group:
                group.create_task(watch(box))
                group.create_task(builds(box))
            chronicle = await box.start(crew, "What do you know?")
            print((await chronicle.result()).text)


if __name__ == "__main__":
    asyncio.run(main())
