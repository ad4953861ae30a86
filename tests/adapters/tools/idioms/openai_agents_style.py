"""An async function with a context first, and a typed dictionary as argument."""

from typing import Any, TypedDict

from interlock import ToolContext


class Location(TypedDict):
    lat: float
    long: float


async def fetch_weather(ctx: ToolContext[Any], location: Location) -> str:
    """Fetch the weather at a place.

    Args:
        location: Where to look.
    """
    return f"rain at {location['lat']:g}, {location['long']:g} for {ctx.user}"


TOOLS = [fetch_weather]
