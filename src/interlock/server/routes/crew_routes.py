"""Crews over HTTP: list, details, graph, problems."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from interlock.engine.to_plain import to_plain
from interlock.server.crews import crew_detail, crew_view, graph_of
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import Responses, refusals_of_read
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, require_scope
from interlock.server.shapes.crews import CrewDetail, CrewList, CrewProblems, Graph

CrewName = Annotated[str, Path(description="The name of a crew.", max_length=200)]
Form = Annotated[
    Literal["json", "text", "mermaid", "svg"], Query(alias="format", description="The format of the graph.")
]

GRAPH_RESPONSE: Responses = {200: {"description": "The graph.", "content": {"text/plain": {}, "image/svg+xml": {}}}}


def crews_router(service: Service) -> APIRouter:
    router = strict_router("/v1/crews", "crews")
    reading = [Depends(require_scope("read", by_crew=True))]

    @router.get("", response_model=CrewList, responses=refusals_of_read(), dependencies=reading)
    async def list_crews(request: Request) -> Response:
        """List the served crews, as the server last read them."""
        return json_response({"crews": [crew_view(each) for each in service.crews.all(request.state.caller.crews)]})

    @router.get(
        "/{name}",
        response_model=CrewDetail,
        responses=refusals_of_read("crew-not-served", "bad-parameter"),
        dependencies=reading,
    )
    async def show_crew(request: Request, name: CrewName) -> Response:
        """Show a crew: its prompts, routes and signals."""
        return json_response(crew_detail(service.crews.require_crew(name, request.state.caller.crews)))

    @router.get(
        "/{name}/graph",
        response_model=Graph,
        responses={**refusals_of_read("crew-not-served", "bad-parameter"), **GRAPH_RESPONSE},
        dependencies=reading,
    )
    async def crew_graph(request: Request, name: CrewName, form: Form = "json") -> Response:
        """Show the graph of a crew as JSON, text, Mermaid or SVG."""
        media_type, text = graph_of(service.crews.require_crew(name, request.state.caller.crews), form)
        return Response(text, media_type=media_type)

    @router.get(
        "/{name}/problems",
        response_model=CrewProblems,
        responses=refusals_of_read("crew-not-served", "bad-parameter"),
        dependencies=reading,
    )
    async def crew_problems(request: Request, name: CrewName) -> Response:
        """List the problems of a crew, with file, line and a fix."""
        served = service.crews.require_crew(name, request.state.caller.crews)
        return json_response({"ok": served.is_sound, "problems": to_plain(served.problems)})

    return router
