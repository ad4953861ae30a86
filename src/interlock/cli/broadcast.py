"""`interlock broadcast`: announce, listen, schedule, and see who hears what."""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from interlock.adapters.signal_import import read_signals
from interlock.broadcast.delayed import Delayed, view_of
from interlock.broadcast.pattern import matches
from interlock.broadcast.record import UNSET, Broadcast, said
from interlock.broadcast.schedules import Schedule, said_time
from interlock.cli.crews import config_option, shown
from interlock.cli.looking import with_look
from interlock.cli.run import data_option, json_option, with_box
from interlock.cli.terminal import can_show_live
from interlock.compose.box import Interlock
from interlock.compose.crews import host_settings
from interlock.compose.keeping import prune_broadcasts
from interlock.errors import UsageError
from interlock.limits import BROADCASTS_LISTED_MAX

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d)")


@click.group()
def broadcast() -> None:
    """Announce something, listen, and see to signals for later."""


def given_data(text: str | None) -> Any:
    """JSON where it is JSON, else the text itself; `-` is standard input."""
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
        raise UsageError(f"'{text[:80]}' is no duration; write a number and ms, s, m, h or d, such as 90s")
    return int(float(found[1]) * _UNITS[found[2]])


def moment_ms(text: str) -> int:
    """Milliseconds since 1970, or a date and time with its offset."""
    if re.fullmatch(r"-?\d{1,19}", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"'{text[:80]}' is no time; write 2026-12-24T18:00:00+01:00, or milliseconds") from error
    if moment.tzinfo is None:
        raise UsageError(f"'{text[:80]}' does not say where; add an offset, such as 2026-12-24T18:00:00+01:00")
    return int(moment.timestamp() * 1000)


def line_of(each: Broadcast) -> str:
    when = datetime.fromtimestamp(each.created_at / 1000, UTC)
    data = "" if each.data is UNSET else "  " + msgspec.json.encode(each.data).decode()
    return shown(f"{when:%Y-%m-%d %H:%M:%S}  {each.type}  {said(each.source)}{data}")


def delayed_line(entry: Delayed) -> str:
    again = ""
    if entry.schedule is not None:
        every, at = entry.schedule.every_ms, entry.schedule
        days = f" on {', '.join(at.days)}" if at.days else ""
        again = f"  every {every} ms" if every else f"  daily at {at.at} {at.zone}{days}"
    key = f"  key {entry.repeat_key}" if entry.repeat_key is not None else ""
    tried = f"  tried {entry.attempts} times" if entry.attempts else ""
    return shown(f"{said_time(entry.deliver_at)}  {entry.id}  {entry.type}  {said(entry.source)}{key}{again}{tried}")


def say(lines: Sequence[str], otherwise: str) -> None:
    for line in lines or (otherwise,):
        click.echo(line)


@broadcast.command()
@click.argument("type_", metavar="TYPE")
@click.argument("data_", metavar="[DATA]", required=False)
@click.option("--as", "name", metavar="NAME", help="The name of the process that announces it.")
@data_option
@json_option
def emit(type_: str, data_: str | None, name: str | None, data: str, as_json: bool) -> None:
    """Announce TYPE to whoever listens, with DATA (JSON, or a text; - is standard input)."""
    payload = given_data(data_)

    async def emitted(box: Interlock) -> Broadcast:
        signals = box.signals.as_process(name) if name else box.signals
        return await signals.emit(type_, payload)

    made = with_box(data, emitted)
    click.echo(msgspec.json.encode(made).decode() if as_json else f"announced {shown(made.type)} as {made.id}")


@broadcast.command()
@click.argument("pattern", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on listening; Ctrl-C ends it.")
@click.option("--limit", type=click.IntRange(1, BROADCASTS_LISTED_MAX), default=20, show_default=True)
@click.option("--plain", is_flag=True, help="Lines, also on a terminal.")
@data_option
@json_option
def tail(pattern: str | None, follow: bool, limit: int, plain: bool, data: str, as_json: bool) -> None:
    """The newest broadcasts, the oldest of them first; of PATTERN ('*' is one segment), or all."""
    if not follow:
        found = with_look(data, lambda box: _print_newest(box, pattern, limit, as_json=as_json))
        if not found and not as_json:
            click.echo("no broadcasts yet; 'interlock broadcast emit TYPE' makes one")
        return
    live = not (as_json or plain) and can_show_live()
    try:
        with_box(data, lambda box: _follow(box, pattern, limit, as_json=as_json, live=live))
    except KeyboardInterrupt:
        return


async def _print_newest(box: Interlock, pattern: str | None, limit: int, *, as_json: bool) -> int:
    """Prints a page at a time, and returns how many there were."""
    count = 0
    async for page in box.signals.newest_pages(limit, pattern):
        for each in page:
            click.echo(msgspec.json.encode(each).decode() if as_json else line_of(each))
        count += len(page)
    return count


async def _follow(box: Interlock, pattern: str | None, limit: int, *, as_json: bool, live: bool) -> None:
    position = await box.signals.bus.head()
    if live:
        from interlock.cli.broadcast_view import followed_live  # it loads rich

        await followed_live(box, pattern, await box.signals.newest(limit, pattern), position)
        return
    await _print_newest(box, pattern, limit, as_json=as_json)
    async for _, each in box.signals.stream(position):
        if pattern is None or matches(pattern, each.type):
            click.echo(msgspec.json.encode(each).decode() if as_json else line_of(each))
            sys.stdout.flush()


@broadcast.command()
@click.argument("type_", metavar="TYPE")
@click.argument("data_", metavar="[DATA]", required=False)
@click.option("--in", "delay", metavar="DURATION", help="After so long: 90s, 5m, 2h, 1d.")
@click.option("--at", "moment", metavar="TIME", help="At a time with its offset, or milliseconds since 1970.")
@click.option("--every", metavar="DURATION", help="Again and again, this far apart.")
@click.option("--daily", metavar="HH:MM", help="Every day at this local time of --zone.")
@click.option("--zone", default="UTC", show_default=True, help="A time zone, such as Europe/Berlin.")
@click.option("--on", "days", metavar="DAYS", help="With --daily: only on these, such as mon,thu.")
@click.option("--key", metavar="KEY", help="Takes the place of what is queued under the same TYPE and KEY.")
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
    """Announce TYPE later.

    Whoever has the data folder open then sees to it: a host, a run, or 'interlock broadcast tail -f'.
    """
    repeat = _repeat(every, daily, zone, days)
    payload = given_data(data_)

    async def scheduled(box: Interlock) -> Delayed:
        return await box.signals.schedule(
            type_,
            payload,
            at=None if moment is None else moment_ms(moment),
            in_ms=None if delay is None else duration_ms(delay),
            repeat=repeat,
            repeat_key=key,
        )

    entry = with_box(data, scheduled)
    if as_json:
        click.echo(msgspec.json.encode(view_of(entry)).decode())
    else:
        click.echo(f"scheduled {shown(entry.type)} for {said_time(entry.deliver_at)} as {entry.id}")


def _repeat(every: str | None, daily: str | None, zone: str, days: str | None) -> Schedule | None:
    if every is not None and daily is not None:
        raise UsageError("use either --every or --daily")
    if every is not None:
        return Schedule(every_ms=duration_ms(every))
    if daily is None:
        if days is not None:
            raise UsageError("--on says on which days --daily counts; say --daily HH:MM too")
        return None
    on = tuple(day.strip().lower() for day in days.split(",")) if days else ()
    return Schedule(at=daily, zone=zone, days=on)


@broadcast.command()
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--type", "type_", metavar="TYPE", help="With --key, instead of an ID.")
@click.option("--key", metavar="KEY")
@data_option
def cancel(id_: str | None, type_: str | None, key: str | None, data: str) -> None:
    """Take back a signal that is queued. Exit code 1 if there is none."""
    gone = with_box(data, lambda box: box.signals.cancel(id_ or "", type=type_ or "", repeat_key=key or ""))
    if gone is None:
        click.echo("there is nothing to cancel under that name")
        sys.exit(1)
    click.echo(f"cancelled {shown(gone.type)}, due {said_time(gone.deliver_at)}")


@broadcast.command("list")
@data_option
@json_option
def list_(data: str, as_json: bool) -> None:
    """Signals for later, the next one first."""
    entries = with_look(data, lambda box: box.signals.delayed())
    if as_json:
        for entry in entries:
            click.echo(msgspec.json.encode(view_of(entry)).decode())
        return
    say([delayed_line(entry) for entry in entries], "nothing is scheduled")


@broadcast.command()
@click.option("--add", "added", nargs=3, metavar="CREW AGENT PATTERN", help="Subscribe an agent.")
@click.option("--loud", is_flag=True, help="With --add: the agent acts on it at once, rather than reads it later.")
@click.option("--remove", "removed", nargs=3, metavar="CREW AGENT PATTERN", help="End a subscription.")
@data_option
@json_option
def subscriptions(
    added: tuple[str, str, str] | None, loud: bool, removed: tuple[str, str, str] | None, data: str, as_json: bool
) -> None:
    """Which agents hear what."""
    if loud and added is None:
        raise UsageError("--loud says how --add is heard; say --add too")
    if added is not None:
        with_box(data, lambda box: box.signals.add(*added, silent=not loud))
    if removed is not None and not with_box(data, lambda box: box.signals.remove(*removed)):
        raise UsageError(f"there is no subscription of {' '.join(removed)}")
    found = with_look(data, lambda box: box.signals.subscriptions())
    if as_json:
        for each in found:
            click.echo(msgspec.json.encode(each).decode())
        return
    lines = [f"{e.crew}  {e.agent}  {e.pattern}  {'silent' if e.silent else 'loud'}  ({e.origin})" for e in found]
    say([shown(line) for line in lines], "nobody hears anything")


@broadcast.command()
@click.option("--revive", metavar="ID", help="Deliver what is dead under this id again.")
@data_option
@json_option
def dead(revive: str | None, data: str, as_json: bool) -> None:
    """What could not be delivered, the newest first, and why."""
    if revive is not None:
        number = with_box(data, lambda box: box.signals.revive(revive))
        click.echo(f"{number} {'letter is' if number == 1 else 'letters are'} to be delivered again")
        return
    found = with_look(data, lambda box: box.signals.dead())
    if as_json:
        for each in found:
            click.echo(msgspec.json.encode(each).decode())
        return
    lines = [_dead_line(e.id, e.broadcast.type, f"{e.for_crew} {e.for_agent}".strip(), e.reason, e.at) for e in found]
    say(lines, "no dead letters")


def _dead_line(name: str, kind: str, whom: str, reason: str, at: int) -> str:
    return shown(f"{said_time(at)}  {name}  {kind}{f'  for {whom}' if whom else ''}  {reason}")


@broadcast.command()
@click.option("--older-than", "days", type=click.FloatRange(min=0), metavar="DAYS")
@config_option
@data_option
def prune(days: float | None, config: str | None, data: str) -> None:
    """Forget broadcasts of DAYS ago and more; the newest stays, and what some agent is still to hear.

    Without --older-than what counts is 'broadcast_days' under [retention] in interlock.toml.
    """
    kept = host_settings(config).broadcast_days if days is None else days
    if kept is None:
        raise UsageError("say how old: --older-than DAYS, or 'broadcast_days' under [retention] in interlock.toml")
    gone = with_box(data, lambda box: prune_broadcasts(box, kept), config)
    click.echo(f"{gone} {'broadcast' if gone == 1 else 'broadcasts'} forgotten")


@broadcast.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@data_option
def import_(path: Path, data: str) -> None:
    """Take in events.jsonl and delayed.json of the original program, from a folder or by name.

    Exit code 1 if some of it cannot be read; the rest is taken in.
    """

    async def taken(box: Interlock) -> tuple[int, int, list[str]]:
        found = read_signals(path, box.clock.now_ms())
        return (*await box.signals.take_in(found), found.problems)

    broadcasts, later, problems = with_box(data, taken)
    for problem in problems:
        click.echo(f"interlock: {shown(problem)}", err=True)
    click.echo(f"{broadcasts} broadcasts and {later} signals for later are taken in")
    if problems:
        sys.exit(1)
