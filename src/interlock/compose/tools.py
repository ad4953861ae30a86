"""All tools of a host: its functions, and those of its MCP servers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.adapters.config.approval_settings import NO_APPROVAL_SETTINGS, ApprovalSettings
from interlock.adapters.config.mcp_settings import McpServer
from interlock.adapters.tools.mcp_tools import McpToolbox
from interlock.adapters.tools.python_tools import PythonToolbox
from interlock.compose.approval_rules import require_known_tools
from interlock.compose.preflight import require_tools
from interlock.crew.definition import CrewDefinition
from interlock.crew.host import BUILT_IN_TOOLS
from interlock.errors import UsageError
from interlock.ports import NO_CREW, CrewRef, ToolCall, ToolSchema


class HostTools:
    """One toolbox made of two. Tool names are unique: a tool of a server is refused if its name is used already.

    `tools_with` has the functions that came with a crew: for that crew they stand before all others. `tools_of_crews`
    are the names of the functions that came with any crew.
    """

    def __init__(
        self,
        functions: PythonToolbox,
        servers: Mapping[str, McpServer],
        *,
        file: Path | None = None,
        tools_with: Callable[[CrewRef], PythonToolbox],
        tools_of_crews: Callable[[], Collection[str]],
        approvals: ApprovalSettings = NO_APPROVAL_SETTINGS,
    ) -> None:
        self._functions, self._file, self._tools_with = functions, file, tools_with
        self._approvals, self._tools_of_crews = approvals, tools_of_crews
        self._served = McpToolbox(servers, taken=(*functions.names, *BUILT_IN_TOOLS))

    async def require(self, crew: CrewDefinition, run: str = "") -> None:
        """Refuses a crew that names missing tools; afterwards all that it names can be called."""
        names = (*self._tools_with(CrewRef(crew.name)).names, *self._functions.names)
        require_tools(crew, names, run, has_file=self._file is not None)
        named = [tool for agent in crew.agents for tool in agent.tools]
        try:
            await self._served.ensure_started(named, lenient=crew.version == "1.0")
            self._require_rules()
        except UsageError as error:
            if not run:
                raise
            raise UsageError(f"{error} (for run '{run}')") from error

    def _require_rules(self) -> None:
        """Refuses a rule of [approvals] that is about no tool of the host or of a crew that was given."""
        known = (*self._functions.names, *self._tools_of_crews(), *self._served.names_offered())
        require_known_tools(self._approvals, self._file, known, self._served.servers_not_started())

    def schemas(self, names: Sequence[str], crew: CrewRef = NO_CREW) -> tuple[ToolSchema, ...]:
        own = self._tools_with(crew)
        others = [name for name in names if name not in own.names]
        found = own.schemas(names, crew) + self._functions.schemas(others, crew) + self._served.schemas(others, crew)
        order = {name: place for place, name in enumerate(names)}
        return tuple(sorted(found, key=lambda schema: order.get(schema.name, len(order)))) if own.names else found

    def is_idempotent(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        if name in (own := self._tools_with(crew)).names:
            return own.is_idempotent(name, crew)
        return self._functions.is_idempotent(name, crew) or self._served.is_idempotent(name, crew)

    def needs_approval(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        if name in (own := self._tools_with(crew)).names:
            return own.needs_approval(name, crew)
        return self._functions.needs_approval(name, crew) or self._served.needs_approval(name, crew)

    def has_approval_function(self, name: str, crew: CrewRef = NO_CREW) -> bool:
        return self._box_of(name, crew).has_approval_function(name, crew)

    async def call_approval_function(self, call: ToolCall) -> Any:
        crew = CrewRef(call.crew, call.crew_sha, call.root)
        return await self._box_of(call.name, crew).call_approval_function(call)

    def _box_of(self, name: str, crew: CrewRef) -> PythonToolbox:
        """The functions of the crew or of the host, whichever has the tool; tools of servers are in neither."""
        own = self._tools_with(crew)
        return own if name in own.names else self._functions

    async def run(self, call: ToolCall) -> str:
        if call.name in (own := self._tools_with(CrewRef(call.crew, call.crew_sha, call.root))).names:
            return await own.run(call)
        box = self._served if self._served.has(call.name) else self._functions
        return await box.run(call)

    async def close(self) -> None:
        await self._served.close()
