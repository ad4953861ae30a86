"""The cost of runs, by crew, agent and period."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.compose.interlock import Interlock
from interlock.compose.usage import DAY_MS, CostReport
from interlock.compose.working.recovery import run_pages
from interlock.engine.budgets.usage import NO_SAVINGS
from interlock.engine.events import Usage
from interlock.engine.to_plain import to_plain
from interlock.errors import RequestRefused
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import refusals_of_read
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, require_scope
from interlock.server.shapes.usage import UsageReport

HOUR_MS = 3_600_000
# Up to this period the report has hours; beyond it, days.
HOURS_UP_TO_MS = 3 * DAY_MS
PAGE = 1_000


def usage_router(service: Service) -> APIRouter:
    router = strict_router("/v1/usage", "usage")

    @router.get(
        "",
        response_model=UsageReport,
        responses=refusals_of_read("bad-parameter"),
        dependencies=[Depends(require_scope("read", by_crew=True))],
    )
    async def report_usage(
        request: Request,
        since: Annotated[int, Query(ge=0, le=2**53, description="Only runs started since then, in ms.")] = 0,
        crew: Annotated[str | None, Query(max_length=200, description="Only runs of this crew.")] = None,
        by: Annotated[Literal["crew", "agent"], Query(description="The period of `times`.")] = "crew",
    ) -> Response:
        """Show the cost of runs by crew and agent, and by the hour or day of their start."""
        box, crew = service.box, _require_crew_filter(request, crew)
        step_ms = HOUR_MS if box.clock.now_ms() - since <= HOURS_UP_TO_MS else DAY_MS
        spent = await box.usage(crew=crew, since_ms=since, step_ms=step_ms)
        times = to_plain(spent.times) if by == "agent" else await _times(box, crew, since, step_ms)
        return json_response({**_totals(spent), "step_ms": step_ms, "times": times})

    return router


def _require_crew_filter(request: Request, crew: str | None) -> str | None:
    """The given crew, or the only one of the key; refuses a crew that the key may not see."""
    allowed: frozenset[str] | None = request.state.caller.crews
    if allowed is None or crew in allowed:
        return crew
    if crew is None and len(allowed) == 1:
        return next(iter(allowed))
    raise RequestRefused("missing-scope", f"the key is limited to {', '.join(sorted(allowed))}; name one as 'crew'")


def _totals(spent: CostReport) -> dict[str, Any]:
    crews = [
        {
            "crew": each.crew,
            "runs": each.runs,
            "usage": to_plain(each.usage),
            "savings": to_plain(each.savings),
            "agents": [
                {
                    "agent": agent,
                    "usage": to_plain(usage),
                    "savings": to_plain(each.savings_by_agent.get(agent, NO_SAVINGS)),
                }
                for agent, usage in each.agents.items()
            ],
        }
        for each in spent.crews
    ]
    whole = {"runs": spent.runs, "usage": to_plain(spent.usage), "savings": to_plain(spent.savings)}
    return {**whole, "crews": crews, "unread": list(spent.unread)}


async def _times(box: Interlock, crew: str | None, since: int, step_ms: int) -> list[dict[str, Any]]:
    """Usage per period from rows alone: a run counts with all runs below it, when it started."""
    found: dict[tuple[int, str], Usage] = {}
    async for page in run_pages(box.journal, PAGE, crew=crew, nested=False):
        for row in page:
            if row.created_at >= since:
                place = (row.created_at // step_ms * step_ms, row.crew)
                found[place] = found.get(place, Usage()) + row.usage
    return [
        {"at": at, "crew": name, "agent": "", "usage": to_plain(usage)} for (at, name), usage in sorted(found.items())
    ]
