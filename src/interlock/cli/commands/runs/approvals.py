"""`interlock runs approvals`: answers that hold for later calls of a tool."""

import click
import msgspec

from interlock.approvals.standing import StandingApproval
from interlock.cli.crew_argument import safe_line
from interlock.cli.open_host import with_interlock
from interlock.cli.options import data_option, json_option
from interlock.cli.read_only import with_read_only
from interlock.cli.view.message_transcript import utc_text
from interlock.compose.interlock import Interlock
from interlock.engine.to_plain import to_plain


@click.group()
def approvals() -> None:
    """List and revoke answers that hold for later calls of a tool."""


@approvals.command("list")
@data_option
@json_option
def list_approvals(data: str, as_json: bool) -> None:
    """List the approvals that hold for a run or always, newest first."""
    found = with_read_only(data, lambda box: box.approvals())
    for each in found:
        click.echo(msgspec.json.encode(to_plain(each)).decode() if as_json else safe_line(_approval_line(each)))
    if not found and not as_json:
        click.echo("no approvals hold for later calls")


def _approval_line(approval: StandingApproval) -> str:
    holds = f"for run {approval.run}" if approval.run else "always"
    by = f" by {approval.by}" if approval.by else ""
    return f"{approval.id}  {approval.pattern}  {holds}, crew {approval.crew}, given{by} at {utc_text(approval.at)}"


@approvals.command()
@click.argument("approval", metavar="ID")
@data_option
def revoke(approval: str, data: str) -> None:
    """Revoke the approval ID at once, also for runs in progress."""

    async def revoke_by_id(box: Interlock) -> None:
        await box.revoke_approval(approval)

    with_interlock(data, revoke_by_id)
    click.echo(f"{safe_line(approval)} is revoked")
