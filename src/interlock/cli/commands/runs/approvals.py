"""`interlock runs approvals`: answers that hold for later calls of a tool."""

from collections.abc import Sequence

import click
import msgspec

from interlock.approvals.standing import RevokedApproval, StandingApproval
from interlock.cli.crew_argument import safe_line
from interlock.cli.open_host import with_interlock
from interlock.cli.options import data_option, json_option
from interlock.cli.read_only import with_read_only
from interlock.cli.system_user import system_user
from interlock.cli.view.message_transcript import utc_text
from interlock.compose.interlock import Interlock
from interlock.compose.orders import BY_HOST
from interlock.engine.to_plain import to_plain


@click.group()
def approvals() -> None:
    """List and revoke answers that hold for later calls of a tool."""


@approvals.command("list")
@click.option("--revoked", is_flag=True, help="List those that were revoked, with who did it and when.")
@data_option
@json_option
def list_approvals(revoked: bool, data: str, as_json: bool) -> None:
    """List the approvals that hold for a run or always, newest first."""

    async def read(box: Interlock) -> tuple[Sequence[StandingApproval], Sequence[RevokedApproval]]:
        return await box.approvals(), await box.past_approvals()

    standing, ended = with_read_only(data, read)
    found = ended if revoked else standing
    for each in found:
        click.echo(_json_of(each) if as_json else safe_line(_approval_line(each)))
    if as_json:
        return
    if not found:
        click.echo("no approval was revoked" if revoked else "no approvals hold for later calls")
    if ended and not revoked:
        click.echo(f"{len(ended)} revoked; --revoked lists them")


def _json_of(approval: StandingApproval) -> str:
    return msgspec.json.encode(to_plain(approval)).decode()


def _approval_line(approval: StandingApproval) -> str:
    holds = f"for run {approval.run}" if approval.run else "always"
    by = f" by {approval.by}" if approval.by else ""
    line = f"{approval.id}  {approval.pattern}  {holds}, crew {approval.crew}, given{by} at {utc_text(approval.at)}"
    if not isinstance(approval, RevokedApproval):
        return line
    return f"{line}, revoked by {approval.revoked_by} at {utc_text(approval.revoked_at)}"


@approvals.command()
@click.argument("approval", metavar="ID")
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print the revoked approval as one JSON object.")
def revoke(approval: str, data: str, as_json: bool) -> None:
    """Revoke the approval ID at once, also for runs in progress. Who revoked it, and when, is kept."""

    async def revoke_by_id(box: Interlock) -> Sequence[RevokedApproval]:
        await box.revoke_approval(approval, by=system_user() or BY_HOST)
        return [each for each in await box.past_approvals() if each.id == approval]

    ended = with_interlock(data, revoke_by_id)
    if as_json:
        click.echo("\n".join(map(_json_of, ended)))
    else:
        click.echo(f"{safe_line(approval)} is revoked")
