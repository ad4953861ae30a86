"""Crews over HTTP: what is served, what it looks like, and what is wrong with it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.engine.in_full import in_full
from interlock.server.crews import crew_detail, crew_view, graph_of
from interlock.server.documents import Responses, looks
from interlock.server.routes_runs import json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import CrewDetail, CrewList, Graph, Problems
from interlock.server.strict import strict_router

CrewName = Annotated[str, Path(description="The name of a crew.", max_length=200)]
Form = Annotated[Literal["json", "text", "mermaid", "svg"], Query(alias="format", description="How it is drawn.")]

DRAWN: Responses = {200: {"description": "The graph.", "content": {"text/plain": {}, "image/svg+xml": {}}}}


def crews_router(service: Service) -> APIRouter:
    router = strict_router("/v1/crews", "crews")
    reading = [Depends(needs("read", by_crew=True))]

    @router.get("", response_model=CrewList, responses=looks(), dependencies=reading)
    async def list_crews(request: Request) -> Response:
        """The crews that are served, as they were when the server started."""
        return json_answer({"crews": [crew_view(each) for each in service.crews.all(request.state.caller.crews)]})

    @router.get(
        "/{name}", response_model=CrewDetail, responses=looks("crew-not-served", "bad-parameter"), dependencies=reading
    )
    async def show_crew(request: Request, name: CrewName) -> Response:
        """A crew with what its models are told, its routes and its signals."""
        return json_answer(crew_detail(service.crews.of(name, request.state.caller.crews)))

    @router.get(
        "/{name}/graph",
        response_model=Graph,
        responses={**looks("crew-not-served", "bad-parameter"), **DRAWN},
        dependencies=reading,
    )
    async def crew_graph(request: Request, name: CrewName, form: Form = "json") -> Response:
        """A crew as nodes and arrows, as text, as Mermaid or as SVG."""
        media_type, text = graph_of(service.crews.of(name, request.state.caller.crews), form)
        return Response(text, media_type=media_type)

    @router.get(
        "/{name}/problems",
        response_model=Problems,
        responses=looks("crew-not-served", "bad-parameter"),
        dependencies=reading,
    )
    async def crew_problems(request: Request, name: CrewName) -> Response:
        """What a check of the crew found, with file, line and a fix."""
        served = service.crews.of(name, request.state.caller.crews)
        return json_answer({"ok": served.is_sound, "problems": in_full(served.problems)})

    return router
