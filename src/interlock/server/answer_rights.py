"""The right to approve later calls of a tool.

Rule: `for this run` and `always` need the scope `approve`, whichever way the answer comes.
"""

from interlock.approvals.answers import asks_to_hold
from interlock.engine.kinds import WaitKind
from interlock.errors import RequestRefused
from interlock.server.auth import ApiCaller
from interlock.server.service import Service


async def require_right_to_hold(service: Service, caller: ApiCaller, run: str, token: str | None, text: str) -> bool:
    """Whether the answer may approve later calls. Refuses one that would, from a caller who may not."""
    if caller.has_scope("approve"):
        return True
    if asks_to_hold(text):
        waits = (await service.box.state(run)).waits
        approvals = [wait for wait in waits if wait.kind is WaitKind.APPROVAL]
        if any(token in (None, wait.id, wait.token) for wait in approvals):
            raise RequestRefused("missing-scope", "an answer that holds for later calls needs the scope 'approve'")
    return False
