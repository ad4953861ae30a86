"""Cron expressions in time zones."""

from datetime import UTC, datetime

import pytest

from interlock.adapters.cron import next_cron
from interlock.errors import UsageError


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("expression", "zone", "after", "then"),
    [
        ("0 9 * * mon-fri", "UTC", "2026-11-20T09:00:00", "2026-11-23T09:00:00"),  # a Friday, then a Monday
        ("0 9 * * *", "Europe/Berlin", "2026-11-18T08:00:00", "2026-11-19T08:00:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00", "2026-03-29T01:00:00"),  # 02:30 does not exist
        ("*/15 * * * *", "UTC", "2026-11-18T08:00:01", "2026-11-18T08:15:00"),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00", "2028-02-29T00:00:00"),
    ],
)
def test_the_next_time(expression: str, zone: str, after: str, then: str) -> None:
    assert next_cron(expression, zone, ms(after)) == ms(then)


@pytest.mark.parametrize(
    ("expression", "zone", "said"),
    [
        ("0 9 * *", "UTC", "it has 4 fields"),
        ("0 9 * * * *", "UTC", "it has 6 fields"),
        ("61 9 * * *", "UTC", "Bad minute"),
        ("0 0 31 2 *", "UTC", "31 2"),
        ("0 9 * * *", "Europe/Berin", "time zone 'Europe/Berin' is unknown"),
        ("0 9 * * *", "../../etc/passwd", "is unknown"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_reason(expression: str, zone: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        next_cron(expression, zone, ms("2026-11-18T08:00:00"))
