"""Fields of pydantic as metadata and as defaults, progress, and a dataclass as result."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from interlock import ToolContext


@dataclass
class Page:
    url: str
    words: list[str]


async def read_page(
    url: Annotated[str, Field(description="The address of the page.", pattern=r"^https://")],
    most: int = Field(default=2, description="How many words.", ge=1, le=100),
    tags: list[str] = Field(default_factory=list),  # noqa: B008  pydantic's way
    ctx: ToolContext | None = None,
) -> Page:
    """Read the first words of a page."""
    assert ctx is not None
    ctx.progress(f"reading {url}")
    return Page(url=url, words=["one", "two", "three"][:most] + tags)


TOOLS = [read_page]
