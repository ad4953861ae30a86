"""Models of a program: a Python function, or an object with `reply`, called where the program wants it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from interlock.adapters.function_callers import ENDED, OWN_LOOP, FunctionCaller
from interlock.engine.events import ReasoningBlock
from interlock.errors import ModelRefused
from interlock.ports import Delta, Model, ModelReply, ModelRequest, ReasoningDelta

FunctionAnswer = str | ModelReply
FunctionPiece = FunctionAnswer | ReasoningDelta
ModelFunction = Callable[[ModelRequest], FunctionAnswer | Awaitable[FunctionAnswer] | AsyncIterator[FunctionPiece]]


class FunctionModel:
    """Calls the function with every request. It returns a text, a `ModelReply`, or an async iterator of pieces.

    A piece is a text, a `ReasoningDelta`, or at the end a `ModelReply`.

    Unless it is called in another place, a synchronous function runs on the event loop and blocks it, so a function
    that waits should be async.
    """

    def __init__(self, function: ModelFunction, place: FunctionCaller = OWN_LOOP) -> None:
        self._function, self._place = function, place

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        answer = await self._place.call(self._function, request)
        if isinstance(answer, str | ModelReply):
            yield answer if isinstance(answer, ModelReply) else ModelReply(text=answer)
        elif isinstance(answer, AsyncIterator):
            said, reasoned = list[str](), list[str]()
            async for piece in _pieces_from(answer, self._place):
                if isinstance(piece, ModelReply):
                    yield piece
                    return
                if isinstance(piece, ReasoningDelta):
                    reasoned.append(piece.text)
                    yield piece
                else:
                    said.append(_require_piece(piece))
                    yield Delta(said[-1])
            yield ModelReply(text="".join(said), reasoning=_blocks(reasoned) if reasoned else ())
        else:
            raise ModelRefused(
                f"the model's function returned {type(answer).__name__}; it must return a text or a ModelReply"
            )


class PlacedModel:
    """A model whose `reply` runs in the loop of the program that gave it."""

    def __init__(self, model: Model, place: FunctionCaller) -> None:
        self._model, self._place = model, place

    async def reply(self, request: ModelRequest) -> AsyncIterator[Delta | ReasoningDelta | ModelReply]:
        async for piece in _pieces_from(await self._place.call(self._model.reply, request), self._place):
            yield piece


async def _pieces_from(pieces: AsyncIterator[Any], place: FunctionCaller) -> AsyncIterator[Any]:
    try:
        while (piece := await place.next_of(pieces)) is not ENDED:
            yield piece
    finally:
        if hasattr(pieces, "aclose"):
            await place.call(pieces.aclose)


def _blocks(reasoned: list[str]) -> tuple[ReasoningBlock, ...]:
    return (ReasoningBlock(text="".join(reasoned)),)


def _require_piece(piece: Any) -> str:
    if not isinstance(piece, str):
        raise ModelRefused(
            f"the model's function yielded {type(piece).__name__}; it must yield pieces of text, ReasoningDelta, "
            "or one ModelReply"
        )
    return piece
