"""Schedules of runs over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.broadcast.naming import stable_id
from interlock.broadcast.schedules import Schedule
from interlock.engine.to_plain import to_plain
from interlock.errors import NoSuchSchedule, UsageError
from interlock.server.http.idempotency import RequestResult
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import NO_CONTENT, refusals_of_delete, refusals_of_read, refusals_of_write
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, require_scope
from interlock.server.shapes.schedules import AddSchedule, SchedulePage, ScheduleView

ScheduleId = Annotated[str, Path(max_length=64, description="The id of a schedule.")]


def schedules_router(service: Service) -> APIRouter:
    router = strict_router("/v1/schedules", "schedules")
    schedules = service.box.schedules

    @router.get(
        "",
        response_model=SchedulePage,
        responses=refusals_of_read(),
        dependencies=[Depends(require_scope("read", by_crew=True))],
    )
    async def list_schedules(request: Request) -> Response:
        """List schedules, the next one first."""
        found = [each for each in await schedules.list() if request.state.caller.may_see(each.crew)]
        return json_response({"schedules": [to_plain(each) for each in found]})

    @router.post(
        "",
        status_code=201,
        response_model=ScheduleView,
        responses=refusals_of_write("crew-not-served", "unsound-crew", "bad-broadcast", "usage-error"),
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def add_schedule(request: Request, order: AddSchedule) -> Response:
        """Schedule runs of a served crew."""

        async def add(planned: str) -> RequestResult:
            crew = service.crews.require_sound_crew(order.crew, request.state.caller.crews)
            made = await service.box.schedule_runs(
                crew, order.input, id=stable_id(f"schedule:{planned}"), **_timing_of(order)
            )
            return RequestResult(to_plain(made), 201)

        return await service.idempotency.run_once(request, add)

    _add_change_routes(router, service)
    return router


def _add_change_routes(router: APIRouter, service: Service) -> None:
    schedules = service.box.schedules

    @router.post(
        "/{schedule}/pause",
        response_model=ScheduleView,
        responses=refusals_of_write("no-such-schedule"),
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def pause_schedule(request: Request, schedule: ScheduleId) -> Response:
        """Pause a schedule: it starts no runs until it is resumed."""

        async def pause(_: str) -> RequestResult:
            return RequestResult(to_plain(await schedules.pause(await _require_schedule(request, service, schedule))))

        return await service.idempotency.run_once(request, pause)

    @router.post(
        "/{schedule}/resume",
        response_model=ScheduleView,
        responses=refusals_of_write("no-such-schedule"),
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def resume_schedule(request: Request, schedule: ScheduleId) -> Response:
        """Resume a schedule; runs that were due during the pause do not start."""

        async def resume(_: str) -> RequestResult:
            return RequestResult(
                to_plain(await schedules.pause(await _require_schedule(request, service, schedule), paused=False))
            )

        return await service.idempotency.run_once(request, resume)

    @router.delete(
        "/{schedule}",
        status_code=204,
        responses={**NO_CONTENT, **refusals_of_delete("no-such-schedule")},
        dependencies=[Depends(require_scope("run", by_crew=True))],
    )
    async def delete_schedule(request: Request, schedule: ScheduleId) -> Response:
        """Delete a schedule; the runs that it started stay."""
        await schedules.delete(await _require_schedule(request, service, schedule))
        return Response(status_code=204)


async def _require_schedule(request: Request, service: Service, name: str) -> str:
    """The id of a schedule that the key may change; raises `NoSuchSchedule` for one of another crew."""
    allowed = [each.id for each in await service.box.schedules.list() if request.state.caller.may_see(each.crew)]
    if not any(each.startswith(name) for each in allowed):
        raise NoSuchSchedule(name, [])
    return name


def _timing_of(order: AddSchedule) -> dict[str, Any]:
    if "zone" in order.model_fields_set and order.daily is None and order.cron is None:
        raise UsageError("zone is for daily and cron; at and every_ms have no local time: remove zone")
    when: dict[str, Any] = {"zone": order.zone, "at": order.at, "cron": order.cron or ""}
    if order.every_ms is not None or order.daily is not None:
        zone = order.zone if order.daily is not None else ""
        when["repeat"] = Schedule(every_ms=order.every_ms or 0, at=order.daily or "", zone=zone, days=tuple(order.days))
    return when
