"""Threads for plain functions: whatever a function raises reaches its caller."""

import asyncio

import pytest

from interlock.adapters.tools.tool_threads import ToolThreads


async def test_a_function_that_raises_stop_iteration_fails_and_does_not_hang() -> None:
    with pytest.raises(RuntimeError, match=r"^StopIteration$"):
        async with asyncio.timeout(5):
            await ToolThreads().call(lambda: next(iter(())))
