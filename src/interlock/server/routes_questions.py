"""Questions of all runs: what a person is asked, in one place."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import RequestRefused, RunNotFound
from interlock.ids import run_of
from interlock.server.documents import MOVING_RUN, OF_RUN, does, looks
from interlock.server.once import Answer
from interlock.server.paging import Cursor, Limit, question_page
from interlock.server.routes_runs import answered, json_answer
from interlock.server.service import Service, needs
from interlock.server.shapes import GiveAnswer, QuestionPage, RunDetail
from interlock.server.strict import strict_router

MessageId = Annotated[str, Path(description="The id of a question.", max_length=300)]


def questions_router(service: Service) -> APIRouter:
    router = strict_router("/v1/questions", "questions")

    @router.get(
        "",
        response_model=QuestionPage,
        responses=looks("bad-parameter", "cursor-not-found"),
        dependencies=[Depends(needs("read", "answer", by_crew=True))],
    )
    async def list_questions(request: Request, limit: Limit = 200, cursor: Cursor = None) -> Response:
        """What all runs wait for, the newest question first."""
        return json_answer(await question_page(service.box, limit, cursor, request.state.caller.crews))

    @router.post(
        "/{message}/answer",
        response_model=RunDetail,
        responses=does(*OF_RUN, *MOVING_RUN, "question-not-found", "not-waiting", "already-resumed"),
        dependencies=[Depends(needs("answer", by_crew=True))],
    )
    async def answer_question(request: Request, message: MessageId, order: GiveAnswer) -> Response:
        """Answers a question; the run goes on with it."""

        async def answer(_: str) -> Answer:
            by = request.state.caller.by
            try:
                await service.require_run(request, run_of(message))
                return await answered(service, run_of(message), service.box.answer(message, order.answer, by=by))
            except RunNotFound:
                raise RequestRefused("question-not-found", f"there is no question '{message[:80]}'") from None

        return await service.once.answer(request, answer)

    return router
