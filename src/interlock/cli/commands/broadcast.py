"""`interlock broadcast`: emit, follow and schedule broadcasts, and manage subscriptions."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from interlock.adapters.files.signal_import import read_signals
from interlock.broadcast.delayed import DelayedBroadcast, view_of
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import UNSET, Broadcast, source_label
from interlock.broadcast.schedules import Schedule, iso_time
from interlock.cli.crew_argument import config_option, safe_line
from interlock.cli.open_host import with_interlock
from interlock.cli.options import data_option, json_option, read_option
from interlock.cli.read_only import StoreToRead, with_read_only
from interlock.cli.view.terminal import can_show_live
from interlock.compose.crews import host_settings
from interlock.compose.interlock import Interlock
from interlock.compose.stores.store_url import ReadStore
from interlock.compose.upkeep.archive import prune_broadcasts
from interlock.errors import UsageError
from interlock.limits import BROADCASTS_LISTED_MAX

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d)")


@click.group()
def broadcast() -> None:
    """Emit, follow and schedule broadcasts, and manage subscriptions."""


def parse_data(text: str | None) -> Any:
    """The decoded JSON, or the text itself if it is not JSON; `-` is standard input."""
    if text is None:
        return UNSET
    if text == "-":
        text = sys.stdin.read()
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def duration_ms(text: str) -> int:
    """`90s`, `5m`, `1.5h`, `2d`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"'{text[:80]}' is not a duration; write a number and ms, s, m, h or d, such as 90s")
    return int(float(found[1]) * _UNITS[found[2]])


def moment_ms(text: str) -> int:
    """Milliseconds since 1970, or a date and time with its offset."""
    if re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"'{text[:80]}' is not a time; write 2026-12-24T18:00:00+01:00, or milliseconds") from error
    if moment.tzinfo is None:
        raise UsageError(f"'{text[:80]}' has no offset; add one, such as 2026-12-24T18:00:00+01:00")
    return int(moment.timestamp() * 1000)


def line_of_broadcast(each: Broadcast) -> str:
    when = datetime.fromtimestamp(each.created_at / 1000, UTC)
    data = "" if each.data is UNSET else "  " + msgspec.json.encode(each.data).decode()
    return safe_line(f"{when:%Y-%m-%d %H:%M:%S}  {each.type}  {source_label(each.source)}{data}")


def line_of_delayed(entry: DelayedBroadcast) -> str:
    again = ""
    if entry.schedule is not None:
        every, at = entry.schedule.every_ms, entry.schedule
        days = f" on {', '.join(at.days)}" if at.days else ""
        again = f"  every {every} ms" if every else f"  daily at {at.at} {at.zone}{days}"
    key = f"  key {entry.repeat_key}" if entry.repeat_key is not None else ""
    tried = f"  {entry.attempts} attempts" if entry.attempts else ""
    return safe_line(
        f"{iso_time(entry.deliver_at)}  {entry.id}  {entry.type}  {source_label(entry.source)}{key}{again}{tried}"
    )


def print_lines_or(lines: Sequence[str], otherwise: str) -> None:
    for line in lines or (otherwise,):
        click.echo(line)


@broadcast.command()
@click.argument("type_", metavar="TYPE")
@click.argument("data_", metavar="[DATA]", required=False)
@click.option("--as", "name", metavar="NAME", help="Name of the emitting process.")
@data_option
@json_option
def emit(type_: str, data_: str | None, name: str | None, data: str, as_json: bool) -> None:
    """Emit a broadcast of TYPE with DATA (JSON or text; - is standard input)."""
    payload = parse_data(data_)

    async def emit_broadcast(box: Interlock) -> Broadcast:
        signals = box.signals.as_process(name) if name else box.signals
        return await signals.emit(type_, payload)

    made = with_interlock(data, emit_broadcast)
    click.echo(msgspec.json.encode(made).decode() if as_json else f"emitted {safe_line(made.type)} as {made.id}")


@broadcast.command()
@click.argument("pattern", required=False)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new ones until Ctrl-C.")
@click.option(
    "--limit", type=click.IntRange(1, BROADCASTS_LISTED_MAX), default=20, show_default=True, help="How many to print."
)
@click.option("--plain", is_flag=True, help="Print lines also on a terminal.")
@read_option
@json_option
def tail(pattern: str | None, follow: bool, limit: int, plain: bool, data: StoreToRead, as_json: bool) -> None:
    """Print the newest broadcasts, oldest first; PATTERN filters by type ('*' matches one segment)."""
    if not follow:
        found = with_read_only(data, lambda box: _print_newest(box, pattern, limit, as_json=as_json))
        if not found and not as_json:
            click.echo("no broadcasts yet; emit one with 'interlock broadcast emit TYPE'")
        return
    if isinstance(data, ReadStore):
        if not data.store:
            raise UsageError("a copy does not tell of new broadcasts; --follow needs the store itself, by --store")
        data = data.store
    live = not (as_json or plain) and can_show_live()
    try:
        with_interlock(data, lambda box: _follow(box, pattern, limit, as_json=as_json, live=live))
    except KeyboardInterrupt:
        return


async def _print_newest(box: Interlock, pattern: str | None, limit: int, *, as_json: bool) -> int:
    """Print page by page; return the number of broadcasts."""
    count = 0
    async for page in box.signals.newest_pages(limit, pattern):
        for each in page:
            click.echo(msgspec.json.encode(each).decode() if as_json else line_of_broadcast(each))
        count += len(page)
    return count


async def _follow(box: Interlock, pattern: str | None, limit: int, *, as_json: bool, live: bool) -> None:
    position = await box.signals.bus.head()
    if live:
        from interlock.cli.view.broadcast_view import follow_live  # loads rich

        await follow_live(box, pattern, await box.signals.newest(limit, pattern), position)
        return
    await _print_newest(box, pattern, limit, as_json=as_json)
    async for _, each in box.signals.stream(position):
        if pattern is None or matches(pattern, each.type):
            click.echo(msgspec.json.encode(each).decode() if as_json else line_of_broadcast(each))
            sys.stdout.flush()


@broadcast.command()
@click.argument("type_", metavar="TYPE")
@click.argument("data_", metavar="[DATA]", required=False)
@click.option("--in", "delay", metavar="DURATION", help="After a delay: 90s, 5m, 2h, 1d.")
@click.option("--at", "moment", metavar="TIME", help="At a time with its offset, or milliseconds since 1970.")
@click.option("--every", metavar="DURATION", help="Repeat at this interval.")
@click.option("--daily", metavar="HH:MM", help="Every day at this time in --zone.")
@click.option("--zone", default="UTC", show_default=True, help="A time zone, such as Europe/Berlin.")
@click.option("--on", "days", metavar="DAYS", help="With --daily: only on these days, such as mon,thu.")
@click.option("--key", metavar="KEY", help="Replaces the entry with the same TYPE and KEY.")
@data_option
@json_option
def schedule(
    type_: str,
    data_: str | None,
    delay: str | None,
    moment: str | None,
    every: str | None,
    daily: str | None,
    zone: str,
    days: str | None,
    key: str | None,
    data: str,
    as_json: bool,
) -> None:
    """Schedule a broadcast of TYPE.

    Any process that has the data folder open then emits it: a server, a run, or 'interlock broadcast tail -f'.
    """
    repeat = _repeat_of(every, daily, zone, days)
    if repeat is None and delay is None and moment is None:
        raise UsageError("give one of --in, --at, --every, --daily")
    payload = parse_data(data_)

    async def schedule_broadcast(box: Interlock) -> DelayedBroadcast:
        return await box.signals.schedule(
            type_,
            payload,
            at=None if moment is None else moment_ms(moment),
            in_ms=None if delay is None else duration_ms(delay),
            repeat=repeat,
            repeat_key=key,
        )

    entry = with_interlock(data, schedule_broadcast)
    if as_json:
        click.echo(msgspec.json.encode(view_of(entry)).decode())
    else:
        click.echo(f"scheduled {safe_line(entry.type)} for {iso_time(entry.deliver_at)} as {entry.id}")


def _repeat_of(every: str | None, daily: str | None, zone: str, days: str | None) -> Schedule | None:
    if every is not None and daily is not None:
        raise UsageError("use either --every or --daily")
    if every is not None:
        return Schedule(every_ms=duration_ms(every))
    if daily is None:
        if days is not None:
            raise UsageError("--on needs --daily HH:MM")
        return None
    on = tuple(day.strip().lower() for day in days.split(",")) if days else ()
    return Schedule(at=daily, zone=zone, days=on)


@broadcast.command()
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--type", "type_", metavar="TYPE", help="With --key, instead of ID.")
@click.option("--key", metavar="KEY", help="The key it was scheduled with.")
@data_option
def cancel(id_: str | None, type_: str | None, key: str | None, data: str) -> None:
    """Cancel a scheduled broadcast. Exit code 1 if there is none."""
    gone = with_interlock(data, lambda box: box.signals.cancel(id_ or "", type=type_ or "", repeat_key=key or ""))
    if gone is None:
        click.echo("nothing to cancel")
        sys.exit(1)
    click.echo(f"cancelled {safe_line(gone.type)}, due {iso_time(gone.deliver_at)}")


@broadcast.command("list")
@data_option
@json_option
def list_(data: str, as_json: bool) -> None:
    """List scheduled broadcasts, next one first."""
    entries = with_read_only(data, lambda box: box.signals.list_delayed())
    if as_json:
        for entry in entries:
            click.echo(msgspec.json.encode(view_of(entry)).decode())
        return
    print_lines_or([line_of_delayed(entry) for entry in entries], "nothing is scheduled")


@broadcast.command()
@click.option("--add", "added", nargs=3, metavar="CREW AGENT PATTERN", help="Subscribe an agent.")
@click.option(
    "--loud", is_flag=True, help="With --add: a broadcast starts a turn; otherwise the agent sees it in its next turn."
)
@click.option("--remove", "removed", nargs=3, metavar="CREW AGENT PATTERN", help="End a subscription.")
@data_option
@json_option
def subscriptions(
    added: tuple[str, str, str] | None, loud: bool, removed: tuple[str, str, str] | None, data: str, as_json: bool
) -> None:
    """List, add or remove subscriptions of agents."""
    if loud and added is None:
        raise UsageError("--loud needs --add")
    if added is not None:
        with_interlock(data, lambda box: box.signals.add(*added, silent=not loud))
    if removed is not None and not with_interlock(data, lambda box: box.signals.remove(*removed)):
        raise UsageError(f"no subscription {' '.join(removed)}")
    found = with_read_only(data, lambda box: box.signals.subscriptions())
    if as_json:
        for each in found:
            click.echo(msgspec.json.encode(each).decode())
        return
    lines = [f"{e.crew}  {e.agent}  {e.pattern}  {'silent' if e.silent else 'loud'}  ({e.origin})" for e in found]
    print_lines_or([safe_line(line) for line in lines], "no subscriptions")


@broadcast.command()
@click.option("--revive", metavar="ID", help="Deliver the dead letter with this id again.")
@data_option
@json_option
def dead(revive: str | None, data: str, as_json: bool) -> None:
    """List undelivered broadcasts with the reason, newest first."""
    if revive is not None:
        number = with_interlock(data, lambda box: box.signals.retry_dead_letters(revive))
        click.echo(f"{number} {'dead letter' if number == 1 else 'dead letters'} queued for delivery")
        return
    found = with_read_only(data, lambda box: box.signals.dead_letters())
    if as_json:
        for each in found:
            click.echo(msgspec.json.encode(each).decode())
        return
    lines = [
        _dead_letter_line(e.id, e.broadcast.type, f"{e.for_crew} {e.for_agent}".strip(), e.reason, e.at) for e in found
    ]
    print_lines_or(lines, "no dead letters")


def _dead_letter_line(name: str, kind: str, whom: str, reason: str, at: int) -> str:
    return safe_line(f"{iso_time(at)}  {name}  {kind}{f'  for {whom}' if whom else ''}  {reason}")


@broadcast.command()
@click.option(
    "--older-than", "days", type=click.FloatRange(min=0), metavar="DAYS", help="Minimum age; fractions are allowed."
)
@config_option
@data_option
def prune(days: float | None, config: str | None, data: str) -> None:
    """Delete broadcasts older than DAYS, except the newest one and those that still wait for an agent.

    The default of --older-than is 'broadcast_days' under [retention] in interlock.toml.
    """
    kept = host_settings(config).broadcast_days if days is None else days
    if kept is None:
        raise UsageError("give --older-than DAYS, or 'broadcast_days' under [retention] in interlock.toml")
    gone = with_interlock(data, lambda box: prune_broadcasts(box, kept), config)
    click.echo(f"{gone} {'broadcast' if gone == 1 else 'broadcasts'} deleted")


@broadcast.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@data_option
def import_(path: Path, data: str) -> None:
    """Import events.jsonl and delayed.json of the original program, from a folder or by name.

    Exit code 1 if some of it cannot be read; the rest is imported.
    """

    async def import_signals(box: Interlock) -> tuple[int, int, list[str]]:
        found = read_signals(path, box.clock.now_ms())
        return (*await box.signals.import_signals(found), found.problems)

    broadcasts, later, problems = with_interlock(data, import_signals)
    for problem in problems:
        click.echo(f"interlock: {safe_line(problem)}", err=True)
    click.echo(f"imported {broadcasts} {'broadcast' if broadcasts == 1 else 'broadcasts'}, {later} scheduled")
    if problems:
        sys.exit(1)
