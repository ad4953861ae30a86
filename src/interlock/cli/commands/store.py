"""`interlock store`: create the store of runs, keep it up to date, and show its state."""

import asyncio
from datetime import UTC, datetime

import click
import msgspec

from interlock.cli.crew_argument import config_option, safe_line
from interlock.cli.options import data_option
from interlock.cli.read_only import with_read_only
from interlock.compose.crews import host_settings
from interlock.compose.stores.homes import home_of
from interlock.compose.stores.store_url import require_no_password, require_url
from interlock.compose.upkeep.store_move import give_up_move, move_store
from interlock.compose.upkeep.store_status import StoreStatus, clock_words, raise_format, read_status
from interlock.ports import ProcessLoad, RunFormat


@click.group()
def store() -> None:
    """Create the store of runs, keep it up to date, and show its state."""


@store.command()
@config_option
@data_option
def init(config: str | None, data: str) -> None:
    """Create the tables of the store, or bring them up to date. Repeating it changes nothing."""
    home = home_of(data)
    asyncio.run(home.initialize(host_settings(config).durability))
    click.echo(f"{safe_line(home.name)} is ready")


@store.command()
@config_option
@data_option
def migrate(config: str | None, data: str) -> None:
    """Bring the tables of a store that an older version made up to date. Stop its older processes first."""
    home = home_of(data)
    home.require_exists()
    asyncio.run(home.initialize(host_settings(config).durability))
    click.echo(f"{safe_line(home.name)} is up to date")


@store.command()
@data_option
def grant(data: str) -> None:
    """Make the roles of a PostgreSQL store, and grant what each may do. 'store migrate' grants them again."""
    home = home_of(data)
    click.echo(f"{safe_line(home.name)} has the roles {asyncio.run(home.grant_roles())}")


@store.command()
@data_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(data: str, as_json: bool) -> None:
    """Show the version and size of the store, its processes, and the runs that wait for a driver."""
    home_of(data).require_exists()
    found = with_read_only(data, read_status)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    for line in _lines(found):
        click.echo(safe_line(line))


@store.command("raise-format")
@data_option
def raise_format_(data: str) -> None:
    """Let runs begin with the newest rules and format of this version, once every process on the store has it.

    Until then runs begin with those that the store had before, so that processes of the older version can take them
    over. Refused while a living process knows less; 'store status' names it.
    """
    home_of(data).require_exists()
    click.echo(f"{safe_line(home_of(data).name)}: {safe_line(with_read_only(data, raise_format))}")


@store.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--give-up", is_flag=True, help="Make FROM usable again after a move that was not finished.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def move(source: str, target: str, give_up: bool, as_json: bool) -> None:
    """Move all runs and everything with them from one store to an empty one: sqlite:DIR or postgres://user@host/db.

    Stop all processes of both stores first. A move that was interrupted is continued by the same command. At its end
    every row is compared; then FROM is marked as moved, and every command on it is refused.
    """
    for url, name in ((source, "FROM"), (target, "TO")):
        require_url(url, name)
        require_no_password(url, name, "name a variable that holds it with ?password_env=NAME")
    homes = home_of(source), home_of(target)
    if give_up:
        give_up_move(*homes)
        click.echo(f"{safe_line(homes[0].name)} can be used again; delete what {safe_line(homes[1].name)} has got")
        return
    done = move_store(*homes)
    if as_json:
        click.echo(msgspec.json.encode(done).decode())
        return
    if done.was_finished:
        click.echo(f"{safe_line(done.source)} was moved to {safe_line(done.target)} before; the move is finished")
        return
    counts = ", ".join(f"{done.rows.get(name, 0)} {name}" for name in ("runs", "records", "broadcasts"))
    click.echo(f"moved {safe_line(done.source)} to {safe_line(done.target)}: {counts}; all rows are equal")


def _lines(found: StoreStatus) -> list[str]:
    size = _megabytes(found.size_bytes)
    oldest = f", the oldest since {_time(found.oldest_waiting_at)}" if found.waiting else ""
    lines = [f"{found.store}: version {found.version}, {size}"]
    if found.run_format is not None:
        lines.append(_format_line(found.run_format, found.newest_format))
    lines.append(f"runs that wait for a driver: {found.waiting}{oldest}")
    lines += [f"private run without a process: 'interlock resume {run}' continues it" for run in found.private_undriven]
    lines += [f"{each}, less than this version: it cannot drive newer runs" for each in found.held_back_by]
    lines += [f"partition {each.name}: {_megabytes(each.size_bytes)}" for each in found.partitions]
    lines += [f"standby {each.name}: {each.state}, {_lag(each.lag_ms)}" for each in found.standbys]
    lines += [_process_line(each) for each in found.processes]
    lines += [f"warning: {each}" for each in found.wrong_clocks]
    lines += [f"leader of {each.name}: {each.owner or 'none'}" for each in found.leaders]
    lines += [
        f"set aside: run {each.run}, {each.tries} tries, again at {_time(each.again_at)}: {each.reason}"
        for each in found.set_asides
    ]
    return lines


def _process_line(each: ProcessLoad) -> str:
    kind = "worker" if each.is_worker else "process"
    clock = "" if each.clock_behind_ms is None else f", clock {clock_words(each.clock_behind_ms)} the store's"
    return f"{kind} {each.owner}: {each.runs} runs, {each.place}{clock}"


def _format_line(now: RunFormat, newest: RunFormat) -> str:
    if now.covers(newest):
        return f"runs begin with {now}"
    return f"runs begin with {now}; this version knows {newest}: 'interlock store raise-format'"


def _megabytes(size: int) -> str:
    return f"{size / 1024**2:.1f} MB"


def _lag(lag_ms: int | None) -> str:
    return "behind by an unknown time" if lag_ms is None else f"{lag_ms} ms behind"


def _time(at: int) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
