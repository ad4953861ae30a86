"""The campaign of a year, for seventy days."""

from pathlib import Path

import pytest

from campaign import year


@pytest.mark.timeout(300)
async def test_schedules_retention_and_changed_crews_keep_the_database_as_large_as_what_is_kept(tmp_path: Path) -> None:
    found = await year.live(tmp_path, 70)
    assert found.faults == []
    assert found.revisions == 2
    assert 6 * 24 <= found.broadcasts_kept <= 8 * 24
    assert found.tombstones > 0
    assert found._replace(log_lines=found.log_lines - 1).faults != []
    assert "met" in year.page(70, found)
