"""What runs have cost: by crew and agent, and over time."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.compose.box import Interlock
from interlock.compose.recovery import pages
from interlock.compose.usage import DAY_MS, Spent
from interlock.engine.events import Usage
from interlock.engine.in_full import in_full
from interlock.errors import RequestRefused
from interlock.server.documents import looks
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import UsageReport
from interlock.server.strict import strict_router

HOUR_MS = 3_600_000
# So long hours are told apart; beyond it, days.
HOURS_UP_TO_MS = 3 * DAY_MS
PAGE = 1_000


def usage_router(service: Service) -> APIRouter:
    router = strict_router("/v1/usage", "usage")

    @router.get(
        "",
        response_model=UsageReport,
        responses=looks("bad-parameter"),
        dependencies=[Depends(needs("read", by_crew=True))],
    )
    async def report_usage(
        request: Request,
        since: Annotated[int, Query(ge=0, le=2**53, description="Only runs started since then, in ms.")] = 0,
        crew: Annotated[str | None, Query(max_length=200, description="Only runs of this crew.")] = None,
        by: Annotated[Literal["crew", "agent"], Query(description="What `times` tell apart.")] = "crew",
    ) -> Response:
        """What runs have cost by crew and agent, and by the hour or day at which they were started."""
        box, crew = service.box, _crew(request, crew)
        step_ms = HOUR_MS if box.clock.now_ms() - since <= HOURS_UP_TO_MS else DAY_MS
        spent = await box.usage(crew=crew, since_ms=since, step_ms=step_ms)
        times = in_full(spent.times) if by == "agent" else await _times(box, crew, since, step_ms)
        return json_answer({**_totals(spent), "step_ms": step_ms, "times": times})

    return router


def _crew(request: Request, crew: str | None) -> str | None:
    """The crew that was asked for, or the only one of the key; one that the key may not see is refused."""
    allowed: frozenset[str] | None = request.state.caller.crews
    if allowed is None or crew in allowed:
        return crew
    if crew is None and len(allowed) == 1:
        return next(iter(allowed))
    raise RequestRefused("missing-scope", f"the key is limited to {', '.join(sorted(allowed))}; name one as 'crew'")


def _totals(spent: Spent) -> dict[str, Any]:
    crews = [
        {
            "crew": each.crew,
            "runs": each.runs,
            "usage": in_full(each.usage),
            "agents": [{"agent": agent, "usage": in_full(usage)} for agent, usage in each.agents.items()],
        }
        for each in spent.crews
    ]
    return {"runs": spent.runs, "usage": in_full(spent.usage), "crews": crews, "unread": list(spent.unread)}


async def _times(box: Interlock, crew: str | None, since: int, step_ms: int) -> list[dict[str, Any]]:
    """By rows alone: a run counts with all below it, where it was started."""
    found: dict[tuple[int, str], Usage] = {}
    async for page in pages(box.journal, PAGE, crew=crew, nested=False):
        for row in page:
            if row.created_at >= since:
                place = (row.created_at // step_ms * step_ms, row.crew)
                found[place] = found.get(place, Usage()) + row.usage
    return [
        {"at": at, "crew": name, "agent": "", "usage": in_full(usage)} for (at, name), usage in sorted(found.items())
    ]
