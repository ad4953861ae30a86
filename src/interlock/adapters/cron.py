"""Cron expressions, read by `cronsim`: local times as Debian's cron treats them when clocks change."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from interlock.adapters.config.extras import missing_extra_message
from interlock.errors import UsageError

# Minute, hour, day, month, day of the week; the library would also read one for seconds.
FIELDS = 5


def next_cron(expression: str, zone: str, after_ms: int) -> int:
    """The first instant of the expression after another one; raises `UsageError` with the fault."""
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError as error:
        sentence = missing_extra_message("a cron expression", "server", error.name or "")
        raise UsageError(f"{sentence}; or use --daily or --every") from error
    try:
        moment = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"time zone '{zone[:80]}' is unknown; name one such as Europe/Berlin or UTC") from error
    try:
        if len(expression.split()) != FIELDS:
            raise CronSimError(f"it has {len(expression.split())} fields")
        return int(next(CronSim(expression, moment)).timestamp() * 1000)
    except CronSimError as error:
        raise UsageError(
            f"'{expression[:80]}' is not a cron expression ({error}); write five fields, such as '0 9 * * mon-fri'"
        ) from error
    except StopIteration as error:
        raise UsageError(f"cron expression '{expression[:80]}' has no next time; no date fits it") from error
