"""Open questions of all runs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import RequestRefused, RunNotFound
from interlock.ids import run_of
from interlock.server.answer_rights import require_right_to_hold
from interlock.server.http.idempotency import RequestResult
from interlock.server.http.paging import Cursor, Limit, question_page
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import RUN_CHANGE_CODES, RUN_CODES, refusals_of_read, refusals_of_write
from interlock.server.routes.run_routes import json_response, resume_and_show_run
from interlock.server.service import Service, require_scope
from interlock.server.shapes.runs import GiveAnswer, QuestionPage, RunDetail

MessageId = Annotated[str, Path(description="The id of a question.", max_length=300)]


def questions_router(service: Service) -> APIRouter:
    router = strict_router("/v1/questions", "questions")

    @router.get(
        "",
        response_model=QuestionPage,
        responses=refusals_of_read("bad-parameter", "cursor-not-found"),
        dependencies=[Depends(require_scope("read", "answer", by_crew=True))],
    )
    async def list_questions(request: Request, limit: Limit = 200, cursor: Cursor = None) -> Response:
        """List the open questions of all runs, the newest first."""
        return json_response(await question_page(service.box, limit, cursor, request.state.caller.crews))

    @router.post(
        "/{message}/answer",
        response_model=RunDetail,
        responses=refusals_of_write(
            *RUN_CODES, *RUN_CHANGE_CODES, "question-not-found", "not-waiting", "already-resumed", "input-refused"
        ),
        dependencies=[Depends(require_scope("answer", by_crew=True))],
    )
    async def answer_question(request: Request, message: MessageId, order: GiveAnswer) -> Response:
        """Answer a question; the run continues with the answer."""

        async def answer(_: str) -> RequestResult:
            caller, run = request.state.caller, run_of(message)
            try:
                await service.require_run(request, run)
                may_hold = await require_right_to_hold(service, caller, run, message, order.answer)
                answering = service.box.answer(message, order.answer, by=caller.by, may_hold=may_hold)
                return await resume_and_show_run(service, run, answering)
            except RunNotFound:
                raise RequestRefused("question-not-found", f"there is no question '{message[:80]}'") from None

        return await service.idempotency.run_once(request, answer)

    return router
