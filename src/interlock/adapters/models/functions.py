"""A model that is a Python function: for tests, and for hosts with a client of their own."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable

from interlock.errors import ModelRefused
from interlock.ports import Delta, ModelReply, ModelRequest

Answer = str | ModelReply
ModelFunction = Callable[[ModelRequest], Answer | Awaitable[Answer]]


class FunctionModel:
    """Calls the function, plain or async, with every request. A plain one is called where it stands: nothing else in
    the process goes on before it returns, so one that waits should be async.
    """

    def __init__(self, function: ModelFunction) -> None:
        self._function = function

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ModelReply]:
        answer = self._function(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, str | ModelReply):
            raise ModelRefused(
                f"the model's function gave {type(answer).__name__}; it must give a text or a ModelReply"
            )
        yield answer if isinstance(answer, ModelReply) else ModelReply(text=answer)
