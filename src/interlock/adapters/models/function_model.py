"""A model that is a Python function: for tests, and for hosts with a client of their own."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable

from interlock.errors import ModelRefused
from interlock.ports import Delta, ModelReply, ModelRequest

FunctionAnswer = str | ModelReply
ModelFunction = Callable[[ModelRequest], FunctionAnswer | Awaitable[FunctionAnswer]]


class FunctionModel:
    """Calls the function with every request. A synchronous function runs on the event loop and blocks it, so a function
    that waits should be async.
    """

    def __init__(self, function: ModelFunction) -> None:
        self._function = function

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        answer = self._function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, str | ModelReply):
            raise ModelRefused(
                f"the model's function returned {type(answer).__name__}; it must return a text or a ModelReply"
            )
        yield answer if isinstance(answer, ModelReply) else ModelReply(text=answer)
