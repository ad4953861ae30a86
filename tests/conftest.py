"""The order in which tests begin."""

import pytest

# By far the longest, and mostly waiting: what begins last would keep the others from ending.
FIRST = "test_schemathesis_finds_no_failure_of_ours_and_no_answer_that_is_not_documented"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name != FIRST)
