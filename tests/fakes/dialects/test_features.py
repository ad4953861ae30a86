"""The table of features is what the tests show."""

import pytest

from tests.fakes.dialects.anthropic import AnthropicServer
from tests.fakes.dialects.features import ABSENT, ANTHROPIC, DIALECTS, FEATURES, GEMINI, NOT_OFFERED, rows, shows, table


def shown_dialects() -> list[str]:
    return [each for each in DIALECTS if any(at == each and state != ABSENT for (_, at), state in rows().items())]


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_is_shown_or_has_a_reason(feature: str) -> None:
    found = rows()
    assert [dialect for dialect in shown_dialects() if (feature, dialect) not in found] == []


def test_there_is_no_reason_for_what_is_shown() -> None:
    found = rows()
    assert [place for place in NOT_OFFERED if found[place] != ABSENT] == []
    assert {ANTHROPIC, GEMINI} <= set(shown_dialects())


def test_the_table_has_a_row_a_feature() -> None:
    lines = list(table())
    assert len([line for line in lines if line.startswith("| ")]) == 1 + len(FEATURES)
    assert not any("| ? |" in line for line in lines)


def test_a_test_that_no_strict_provider_answered_shows_nothing() -> None:
    @shows("streaming", ANTHROPIC)
    def idle() -> None:
        with AnthropicServer():
            pass

    with pytest.raises(AssertionError, match="no strict anthropic has answered"):
        idle()
