"""`interlock schedule`: runs that start by themselves."""

import re
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from interlock.broadcast.run_schedules import RunSchedule
from interlock.broadcast.schedules import Schedule, said_time
from interlock.cli.broadcast import duration_ms, moment_ms
from interlock.cli.crews import crew_argument, open_sound_crew, shown
from interlock.cli.looking import with_look
from interlock.cli.run import data_option, given_text, json_option, with_box
from interlock.compose.box import Interlock
from interlock.engine.in_full import in_full
from interlock.errors import UsageError

_WEEKLY = re.compile(r"([a-z]{3}(?:,[a-z]{3})*)[ @]([0-9:]+)")


@click.group()
def schedule() -> None:
    """Start runs at set times. 'interlock serve' on the same data folder starts them."""


@schedule.command()
@crew_argument
@click.argument("text", metavar="[INPUT|-]", default="")
@click.option("--daily", metavar="HH:MM", help="Every day at this local time of --zone.")
@click.option("--weekly", metavar="'DAYS HH:MM'", help="On these days of the week, such as 'mon,thu 09:00'.")
@click.option("--every", metavar="DURATION", help="Again and again, this far apart: 15m, 2h, 1d.")
@click.option("--at", "moment", metavar="TIME", help="Once, at a time with its offset, or milliseconds since 1970.")
@click.option("--cron", metavar="EXPRESSION", help="Five fields, such as '0 9 * * mon-fri'; in --zone.")
@click.option("--zone", default="UTC", show_default=True, help="A time zone, such as Europe/Berlin.")
@data_option
@json_option
def add(
    crew: str,
    config: str | None,
    text: str,
    daily: str | None,
    weekly: str | None,
    every: str | None,
    moment: str | None,
    cron: str | None,
    zone: str,
    data: str,
    as_json: bool,
) -> None:
    """Start a run of CREW on INPUT at set times.

    The runs use the newest file of the crew that the server knows, not a copy made now.
    """
    given = [each for each in (daily, weekly, every, moment, cron) if each is not None]
    if len(given) != 1:
        raise UsageError("give one of --daily, --weekly, --every, --at, --cron")
    when: dict[str, Any] = {"zone": zone}
    if moment is not None:
        when["at"] = moment_ms(moment)
    elif cron is not None:
        when["cron"] = cron
    else:
        when["repeat"] = _repeat(daily, weekly, every, zone)
    definition = open_sound_crew(crew, config)
    given_input = given_text(text)
    made = with_box(data, lambda box: box.schedule_runs(definition, given_input, **when), config)
    if as_json:
        click.echo(_as_json(made))
    else:
        click.echo(f"scheduled {shown(made.crew)} as {made.id}; first run {said_time(made.next_at)}")


def _repeat(daily: str | None, weekly: str | None, every: str | None, zone: str) -> Schedule:
    if every is not None:
        return Schedule(every_ms=duration_ms(every))
    if daily is not None:
        return Schedule(at=daily, zone=zone)
    found = _WEEKLY.fullmatch((weekly or "").strip().lower())
    if found is None:
        raise UsageError(
            f"--weekly '{(weekly or '')[:80]}' is not days and a time; write 'mon 09:00' or 'mon,thu 09:00'"
        )
    return Schedule(at=found[2], zone=zone, days=tuple(found[1].split(",")))


@schedule.command("list")
@data_option
@json_option
def list_(data: str, as_json: bool) -> None:
    """List the schedules, the next one first."""
    found = with_look(data, lambda box: box.schedules.list())
    for each in found:
        click.echo(_as_json(each) if as_json else _line(each))
    if not found and not as_json:
        click.echo("no schedules; 'interlock schedule add CREW [INPUT] --daily HH:MM' makes one")


@schedule.command()
@click.argument("name", metavar="ID")
@click.option("--resume", "resumed", is_flag=True, help="End the pause; missed runs do not start.")
@data_option
def pause(name: str, resumed: bool, data: str) -> None:
    """Start no more runs of schedule ID until it is resumed."""
    made = with_box(data, lambda box: box.schedules.pause(name, paused=not resumed))
    click.echo(f"paused {made.id}" if made.paused else f"resumed {made.id}; next run {said_time(made.next_at)}")


@schedule.command()
@click.argument("name", metavar="ID")
@data_option
def delete(name: str, data: str) -> None:
    """Delete schedule ID. Runs that it started stay."""

    async def gone(box: Interlock) -> RunSchedule:
        return await box.schedules.delete(name)

    click.echo(f"deleted {with_box(data, gone).id}")


def _as_json(schedule: RunSchedule) -> str:
    return msgspec.json.encode(in_full(schedule)).decode()


def _line(schedule: RunSchedule) -> str:
    state = "paused" if schedule.paused else "over" if schedule.is_over else _short(schedule.next_at)
    parts = [schedule.id, state, schedule.crew, _when(schedule)]
    if schedule.input:
        parts.append(repr(schedule.input[:60]))
    if schedule.last_run:
        parts.append(f"last run {schedule.last_run}")
    if schedule.problem:
        parts.append(f"did not start: {schedule.problem}")
    return shown("  ".join(parts))


def _when(schedule: RunSchedule) -> str:
    repeat = schedule.repeat
    if schedule.cron:
        return f"cron {schedule.cron} {schedule.zone}"
    if repeat is None:
        return f"once at {_short(schedule.next_at)}"
    if repeat.every_ms:
        return f"every {_duration(repeat.every_ms)}"
    return f"{','.join(repeat.days) or 'daily'} {repeat.at} {repeat.zone}"


def _short(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"


def _duration(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
