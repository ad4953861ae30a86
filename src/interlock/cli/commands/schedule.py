"""`interlock schedule`: runs that start at set times."""

import re
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from interlock.broadcast.run_schedules import RunSchedule
from interlock.broadcast.schedules import Schedule, iso_time, local_ms
from interlock.cli.commands.broadcast import duration_ms, moment_ms
from interlock.cli.crew_argument import crew_argument, open_sound_crew, safe_line
from interlock.cli.open_host import with_interlock
from interlock.cli.options import data_option, json_option, text_or_stdin
from interlock.cli.read_only import with_read_only
from interlock.compose.interlock import Interlock
from interlock.engine.to_plain import to_plain
from interlock.errors import UsageError

_WEEKLY = re.compile(r"([a-z]{3}(?:,[a-z]{3})*)[ @]([0-9:]+)")


@click.group()
def schedule() -> None:
    """Start runs at set times. 'interlock serve' on the same data folder starts them."""


@schedule.command()
@crew_argument
@click.argument("text", metavar="[INPUT|-]", default="")
@click.option("--daily", metavar="HH:MM", help="Every day at this time in --zone.")
@click.option("--weekly", metavar="'DAYS HH:MM'", help="On these days of the week, such as 'mon,thu 09:00'.")
@click.option("--every", metavar="DURATION", help="At this interval: 15m, 2h, 1d.")
@click.option("--at", "moment", metavar="TIME", help="Once: a time with its offset or in --zone, or milliseconds.")
@click.option("--cron", metavar="EXPRESSION", help="Five fields, such as '0 9 * * mon-fri'; in --zone.")
@click.option("--zone", help="Time zone, such as Europe/Berlin; default: UTC.")
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
    zone: str | None,
    data: str,
    as_json: bool,
) -> None:
    """Start a run of CREW on INPUT at set times.

    Each run uses the crew as the server has loaded it then, not a copy made now.
    """
    given = [each for each in (daily, weekly, every, moment, cron) if each is not None]
    if len(given) != 1:
        raise UsageError("give one of --daily, --weekly, --every, --at, --cron")
    if zone is not None and every is not None:
        raise UsageError("--every has no local time; remove --zone")
    when: dict[str, Any] = {"zone": zone or "UTC"}
    if moment is not None:
        when["at"] = moment_ms(moment) if zone is None else _local_ms(moment, zone)
    elif cron is not None:
        when["cron"] = cron
    else:
        when["repeat"] = _repeat_of(daily, weekly, every, zone or "UTC")
    definition = open_sound_crew(crew, config)
    given_input = text_or_stdin(text)
    made = with_interlock(data, lambda box: box.schedule_runs(definition, given_input, **when), config)
    if as_json:
        click.echo(_as_json(made))
    else:
        click.echo(f"scheduled {safe_line(made.crew)} as {made.id}; first run {iso_time(made.next_at)}")


def _local_ms(moment: str, zone: str) -> int:
    try:
        local = datetime.fromisoformat(moment)
    except ValueError as error:
        raise UsageError(f"'{moment[:80]}' is not a local time; write 2026-12-24T18:00 with --zone") from error
    if local.tzinfo is not None:
        raise UsageError(f"'{moment[:80]}' has an offset; remove the offset or --zone")
    return local_ms(local, zone)


def _repeat_of(daily: str | None, weekly: str | None, every: str | None, zone: str) -> Schedule:
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
    found = with_read_only(data, lambda box: box.schedules.list())
    for each in found:
        click.echo(_as_json(each) if as_json else _schedule_line(each))
    if not found and not as_json:
        click.echo("no schedules; add one with 'interlock schedule add CREW [INPUT] --daily HH:MM'")


@schedule.command()
@click.argument("name", metavar="ID")
@click.option("--resume", "resumed", is_flag=True, help="End the pause; missed runs do not start.")
@data_option
def pause(name: str, resumed: bool, data: str) -> None:
    """Start no more runs of schedule ID until it is resumed."""
    made = with_interlock(data, lambda box: box.schedules.pause(name, paused=not resumed))
    click.echo(f"paused {made.id}" if made.paused else f"resumed {made.id}; next run {iso_time(made.next_at)}")


@schedule.command()
@click.argument("name", metavar="ID")
@data_option
def delete(name: str, data: str) -> None:
    """Delete schedule ID. Runs that it started stay."""

    async def delete_schedule(box: Interlock) -> RunSchedule:
        return await box.schedules.delete(name)

    click.echo(f"deleted {with_interlock(data, delete_schedule).id}")


def _as_json(schedule: RunSchedule) -> str:
    return msgspec.json.encode(to_plain(schedule)).decode()


def _schedule_line(schedule: RunSchedule) -> str:
    state = "paused" if schedule.paused else "over" if schedule.is_over else _utc_text(schedule.next_at)
    parts = [schedule.id, state, schedule.crew, _timing_text(schedule)]
    if schedule.input:
        parts.append(repr(schedule.input[:60]))
    if schedule.last_run:
        parts.append(f"last run {schedule.last_run}")
    if schedule.problem:
        parts.append(f"did not start: {schedule.problem}")
    return safe_line("  ".join(parts))


def _timing_text(schedule: RunSchedule) -> str:
    repeat = schedule.repeat
    if schedule.cron:
        return f"cron {schedule.cron} {schedule.zone}"
    if repeat is None:
        return f"once at {_utc_text(schedule.next_at)}"
    if repeat.every_ms:
        return f"every {_duration_text(repeat.every_ms)}"
    return f"{','.join(repeat.days) or 'daily'} {repeat.at} {repeat.zone}"


def _utc_text(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"


def _duration_text(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"
