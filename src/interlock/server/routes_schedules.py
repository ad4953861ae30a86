"""Schedules of runs over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.broadcast.naming import derived_id
from interlock.broadcast.schedules import Schedule
from interlock.engine.in_full import in_full
from interlock.errors import NoSuchSchedule
from interlock.server.documents import GONE, does, looks, takes_away
from interlock.server.once import Answer
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import AddSchedule, SchedulePage, ScheduleView
from interlock.server.strict import strict_router

ScheduleId = Annotated[str, Path(max_length=64, description="The id of a schedule.")]


def schedules_router(service: Service) -> APIRouter:
    router = strict_router("/v1/schedules", "schedules")
    schedules = service.box.schedules

    @router.get("", response_model=SchedulePage, responses=looks(), dependencies=[Depends(needs("read", by_crew=True))])
    async def list_schedules(request: Request) -> Response:
        """All schedules, the next one first."""
        found = [each for each in await schedules.list() if request.state.caller.may_see(each.crew)]
        return json_answer({"schedules": [in_full(each) for each in found]})

    @router.post(
        "",
        status_code=201,
        response_model=ScheduleView,
        responses=does("crew-not-served", "unsound-crew", "bad-broadcast", "usage-error"),
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def add_schedule(request: Request, order: AddSchedule) -> Response:
        """Starts runs of a served crew at set times."""

        async def add(planned: str) -> Answer:
            crew = service.crews.sound(order.crew, request.state.caller.crews)
            made = await service.box.schedule_runs(
                crew, order.input, id=derived_id(f"schedule:{planned}"), **_when(order)
            )
            return Answer(in_full(made), 201)

        return await service.once.answer(request, add)

    _add_changes(router, service)
    return router


def _add_changes(router: APIRouter, service: Service) -> None:
    schedules = service.box.schedules

    @router.post(
        "/{schedule}/pause",
        response_model=ScheduleView,
        responses=does("no-such-schedule"),
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def pause_schedule(request: Request, schedule: ScheduleId) -> Response:
        """Starts no more runs until the schedule is resumed."""

        async def pause(_: str) -> Answer:
            return Answer(in_full(await schedules.pause(await _allowed(request, service, schedule))))

        return await service.once.answer(request, pause)

    @router.post(
        "/{schedule}/resume",
        response_model=ScheduleView,
        responses=does("no-such-schedule"),
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def resume_schedule(request: Request, schedule: ScheduleId) -> Response:
        """Ends a pause; runs that would have started in it do not start."""

        async def resume(_: str) -> Answer:
            return Answer(in_full(await schedules.pause(await _allowed(request, service, schedule), paused=False)))

        return await service.once.answer(request, resume)

    @router.delete(
        "/{schedule}",
        status_code=204,
        responses={**GONE, **takes_away("no-such-schedule")},
        dependencies=[Depends(needs("run", by_crew=True))],
    )
    async def delete_schedule(request: Request, schedule: ScheduleId) -> Response:
        """Deletes a schedule; the runs that it started stay."""
        await schedules.delete(await _allowed(request, service, schedule))
        return Response(status_code=204)


async def _allowed(request: Request, service: Service, name: str) -> str:
    """The id of a schedule that the key may change; `NoSuchSchedule` for one of another crew, as if there were none."""
    allowed = [each.id for each in await service.box.schedules.list() if request.state.caller.may_see(each.crew)]
    if not any(each.startswith(name) for each in allowed):
        raise NoSuchSchedule(name, [])
    return name


def _when(order: AddSchedule) -> dict[str, Any]:
    when: dict[str, Any] = {"zone": order.zone, "at": order.at, "cron": order.cron or ""}
    if order.every_ms is not None or order.daily is not None:
        zone = order.zone if order.daily is not None else ""
        when["repeat"] = Schedule(every_ms=order.every_ms or 0, at=order.daily or "", zone=zone, days=tuple(order.days))
    return when
