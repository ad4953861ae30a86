"""Crews as tools of an MCP server.

Rule 1: every crew is a tool with a text as its input; `resume` answers a paused run.
Rule 2: a result has the run, its status and reason, and the question if it is paused. A run that did not complete, and
a refusal, is an error with a code.
Rule 3: a run continues only while its caller waits: a cancelled call, or a client that disconnects, cancels it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import anyio
import msgspec
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, TextContent

from interlock import __version__
from interlock.compose.interlock import Interlock, Result, RunHandle, new_run_id
from interlock.crew.definition import CrewDefinition
from interlock.engine.flow.parking import PARKED, SET_ASIDE
from interlock.errors import InterlockError, RunNotFound, StoreFailed, UsageError
from interlock.server.http.problems import detail_of

RESUME = "resume"
# The caller in journals: a client of this server.
MCP = "mcp"
RESUME_DESCRIPTION = (
    "Answers the question of a paused run and continues it. Give `token` only if several questions are open."
)
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")

Progress = Callable[[float, str], Awaitable[None]]


def crews_by_tool_name(crews: Sequence[CrewDefinition]) -> dict[str, CrewDefinition]:
    """The tool name of each crew; raises `UsageError` if two would have one name."""
    found: dict[str, CrewDefinition] = {}
    for crew in crews:
        name = _UNFIT.sub("_", crew.name).strip("_")[:64]
        if name in found:
            also = f"crew '{found[name].name}' has that name already"
            raise UsageError(f"crew '{crew.name}' cannot be a tool called '{name}': {also}; rename it, or leave it out")
        if not name or name == RESUME:
            raise UsageError(f"crew '{crew.name}' cannot be a tool called '{name}'; rename it, or leave it out")
        found[name] = crew
    return found


def crew_server(box: Interlock, crews: Mapping[str, CrewDefinition]) -> MCPServer:
    server = MCPServer("interlock", version=__version__, log_level="WARNING")
    served = CrewTools(box, [crew.name for crew in crews.values()])
    for name, crew in crews.items():
        server.add_tool(_run_tool(served, crew), name=name, description=_description(crew))
    server.add_tool(_resume_tool(served), name=RESUME, description=RESUME_DESCRIPTION)
    return server


def _run_tool(served: "CrewTools", crew: CrewDefinition) -> Callable[..., Awaitable[CallToolResult]]:
    async def run(input: str, ctx: Context) -> CallToolResult:  # noqa: A002 - it is the name that clients see
        return await served.run(crew, input, _progress_reporter(ctx))

    return run


def _resume_tool(served: "CrewTools") -> Callable[..., Awaitable[CallToolResult]]:
    async def resume(run: str, answer: str, ctx: Context, token: str = "") -> CallToolResult:
        return await served.resume(run, answer, token or None, _progress_reporter(ctx))

    return resume


def _progress_reporter(ctx: Context) -> Progress:
    async def report(progress: float, message: str) -> None:
        await ctx.report_progress(progress, message=message)

    return report


def _description(crew: CrewDefinition) -> str:
    what = crew.description or f"Runs the crew {crew.name}."
    return (
        f"{what}\nIf the result is paused, ask the user its question and call `{RESUME}` with the run and the answer."
    )


class CrewToolResult(NamedTuple):
    """The result of a tool: as text, and as JSON."""

    text: str
    told: dict[str, Any]
    is_error: bool = False


class CrewTools:
    """The work of the tools, without the protocol."""

    def __init__(self, box: Interlock, crews: Sequence[str]) -> None:
        self.box, self._crews = box, crews

    async def run(self, crew: CrewDefinition, text: str, report: Progress) -> CallToolResult:
        run = new_run_id(self.box.clock)
        return await self._as_call_result(
            self._follow_run(run, self.box.start(crew, text, run_id=run, by=MCP), 0, report)
        )

    async def resume(self, run: str, answer: str, token: str | None, report: Progress) -> CallToolResult:
        return await self._as_call_result(self._resume_run(run, answer, token, report))

    async def _as_call_result(self, asked: Awaitable[Result]) -> CallToolResult:
        """Removes secrets, also from errors and from records stored before a secret was known."""
        try:
            outcome = _result_of(await asked)
        except InterlockError as error:
            detail = detail_of(error) if isinstance(error, StoreFailed) else str(error)
            outcome = CrewToolResult(detail, {"code": error.code, "message": detail}, is_error=True)
        keys = self.box.redactor()
        told = msgspec.json.decode(keys.redact_body(msgspec.json.encode(outcome.told)))
        text = TextContent(type="text", text=keys.redact(outcome.text))
        return CallToolResult(content=[text], structured_content=told, is_error=outcome.is_error)

    async def _resume_run(self, run: str, answer: str, token: str | None, report: Progress) -> Result:
        row = await self.box.journal.row(run)
        if row.crew not in self._crews:
            raise UsageError(f"run '{run}' belongs to crew '{row.crew}', which is not served here")
        return await self._follow_run(
            run, self.box.resume(run, answer, token=token, by=MCP, may_hold=False), row.seq, report
        )

    async def _follow_run(self, run: str, asked: Awaitable[RunHandle], after: int, report: Progress) -> Result:
        try:
            handle = await asked
            async for event in self.box.runner.follow(handle.id, after):
                if event["type"] in ("turn.started", "tool.called"):
                    await report(event["seq"], _progress_line(event))
            return await handle.result()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), suppress(RunNotFound):
                await self.box.cancel(run, by=MCP)
            raise


def _progress_line(event: Mapping[str, Any]) -> str:
    return f"{event['agent']} works" if event["type"] == "turn.started" else f"{event['agent']} calls {event['name']}"


def _result_of(result: Result) -> CrewToolResult:
    told = {"run": result.run, "status": result.status, "reason": result.reason}
    if result.status == "completed":
        return CrewToolResult(result.text, {**told, "text": result.text})
    if result.reason in (PARKED, SET_ASIDE):
        why = f": {result.detail}" if result.detail else ""
        text = f"run {result.run} is {result.reason.replace('_', ' ')}{why}\nIt continues when it is resumed."
        return CrewToolResult(text, {**told, "detail": result.detail})
    if result.status == "paused":
        question = result.text or result.output
        context = f"\nContext: {result.context}" if result.context else ""
        text = f"run {result.run} is paused and asks:\n{question}{context}\nCall {RESUME} with this run and the answer."
        return CrewToolResult(text, {**told, "question": question, "context": result.context, "token": result.token})
    text = f"run {result.run} {result.status}: {result.reason}\n{result.text}".rstrip()
    return CrewToolResult(text, {**told, "code": f"run-{result.status}", "text": result.text}, is_error=True)
