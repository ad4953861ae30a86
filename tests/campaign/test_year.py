"""The campaign of a year, for seventy days."""

import asyncio
from pathlib import Path

import pytest

from campaign import year


@pytest.mark.timeout(300)
def test_schedules_retention_and_changed_crews_keep_the_database_as_large_as_what_is_kept(tmp_path: Path) -> None:
    found = asyncio.run(year.live(tmp_path, 70))
    assert found.faults == []
    assert found.revisions == 2
    assert 6 * 24 <= found.broadcasts_kept <= 8 * 24
    assert found.tombstones > 0
    assert "met" in year.page(70, found)
