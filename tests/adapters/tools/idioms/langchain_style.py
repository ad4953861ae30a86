"""A decorated function, with a Google docstring."""

from interlock import tool


@tool
def search_catalogue(query: str, limit: int = 3) -> list[str]:
    """Search the catalogue of lamps.

    Args:
        query: Words to look for.
        limit: How many titles to return.
    """
    return [f"{query} {number}" for number in range(1, limit + 1)]


TOOLS = [search_catalogue]
