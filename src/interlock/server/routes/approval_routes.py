"""Standing approvals over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from interlock.engine.to_plain import to_plain
from interlock.errors import NoSuchApproval
from interlock.server.auth import ApiCaller
from interlock.server.http.strict_routes import strict_router
from interlock.server.openapi import NO_CONTENT, refusals_of_delete, refusals_of_read
from interlock.server.routes.run_routes import json_response
from interlock.server.service import Service, require_scope
from interlock.server.shapes.approvals import ApprovalPage

ApprovalId = Annotated[str, Path(max_length=64, description="The id of a standing approval.")]


def approvals_router(service: Service) -> APIRouter:
    router = strict_router("/v1/approvals", "approvals")

    @router.get(
        "",
        response_model=ApprovalPage,
        responses=refusals_of_read(),
        dependencies=[Depends(require_scope("read", "approve", by_crew=True))],
    )
    async def list_approvals(request: Request) -> Response:
        """List the approvals that hold for later calls, and those that were revoked, with who did it."""
        caller: ApiCaller = request.state.caller
        standing = [to_plain(each) for each in await service.box.approvals() if caller.may_see(each.crew)]
        revoked = [to_plain(each) for each in await service.box.past_approvals() if caller.may_see(each.crew)]
        return json_response({"approvals": standing, "revoked": revoked})

    @router.delete(
        "/{approval}",
        status_code=204,
        responses={**NO_CONTENT, **refusals_of_delete("no-such-approval")},
        dependencies=[Depends(require_scope("approve", by_crew=True))],
    )
    async def revoke_approval(request: Request, approval: ApprovalId) -> Response:
        """Revoke an approval at once, also for runs in progress."""
        caller: ApiCaller = request.state.caller
        found = [each.id for each in await service.box.approvals() if caller.may_see(each.crew)]
        if approval not in found:
            raise NoSuchApproval(approval)
        await service.box.revoke_approval(approval, by=caller.by)
        return Response(status_code=204)

    return router
