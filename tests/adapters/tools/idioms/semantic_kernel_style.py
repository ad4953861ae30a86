"""Methods of a class, declared as tools; they share the state of their object."""

from typing import Annotated

from interlock import tool


class Lights:
    def __init__(self) -> None:
        self._is_on = {1: False, 2: True}

    @tool(name="get_lights", description="Gets a list of lights and their state.")
    def list_lights(self) -> dict[int, bool]:
        return self._is_on

    @tool(name="change_light")
    def switch(self, number: Annotated[int, "The number of the light"], is_on: bool) -> str:
        """Changes the state of a light."""
        self._is_on[number] = is_on
        return f"light {number} is {'on' if self._is_on[number] else 'off'}"


LIGHTS = Lights()
TOOLS = [LIGHTS.list_lights, LIGHTS.switch]
