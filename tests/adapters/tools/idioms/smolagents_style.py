"""Types and a Google docstring that repeats them."""

from interlock import tool


@tool
def travel_time(start: str, goal: str, by_train: bool | None = None) -> str:
    """
    Gives the travel time between two towns.

    Args:
        start (str): the town to leave from.
        goal (str): the town to reach,
            written as on a map.
        by_train (bool, optional): whether to take the train.

    Returns:
        str: The time in hours.
    """
    return f"{start} to {goal}: {2 if by_train else 3} h"


TOOLS = [travel_time]
