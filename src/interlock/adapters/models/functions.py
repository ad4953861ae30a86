"""A model that is a Python function: for tests, and for hosts with a client of their own."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable

from interlock.ports import Delta, ModelReply, ModelRequest

Answer = str | ModelReply
ModelFunction = Callable[[ModelRequest], Answer | Awaitable[Answer]]


class FunctionModel:
    """Calls the function, plain or async, with every request."""

    def __init__(self, function: ModelFunction) -> None:
        self._function = function

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        answer = self._function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        yield answer if isinstance(answer, ModelReply) else ModelReply(text=answer)
