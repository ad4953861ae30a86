"""Dependencies by the context, models of pydantic, and a request to try again."""

from dataclasses import dataclass

from pydantic import BaseModel, Field

from interlock import Retry, ToolContext


@dataclass
class Shop:
    stock: dict[str, int]


class Wish(BaseModel):
    """What a customer wants."""

    article: str
    pieces: int = Field(default=1, ge=1, le=9)


class Answer(BaseModel):
    article: str
    left: int


async def reserve(ctx: ToolContext[Shop], wishes: list[Wish]) -> list[Answer]:
    """Reserve articles for a customer."""
    unknown = [wish.article for wish in wishes if wish.article not in ctx.deps.stock]
    if unknown:
        raise Retry(f"there is no {unknown[0]}")
    return [Answer(article=wish.article, left=ctx.deps.stock[wish.article] - wish.pieces) for wish in wishes]


TOOLS = [reserve]
