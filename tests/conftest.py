"""The order in which tests begin, and what they leave behind."""

import gc
import os
from collections.abc import Iterator

import pytest

from tests import postgres

# Journals name the user who types a command: the same one on every machine.
os.environ["LOGNAME"] = "tester"

# By far the longest, and mostly waiting: what begins last would keep the others from ending.
FIRST = "test_schemathesis_finds_no_failure_of_ours_and_no_answer_that_is_not_documented"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.name != FIRST)


def pytest_collection_finish() -> None:
    """What importing left is there to stay: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """A socket, a file or a task that nobody closed is found in the file that made it, not later and by chance."""
    yield
    gc.collect()


def pytest_sessionfinish() -> None:
    postgres.end_shared_cluster()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The address of an empty PostgreSQL store, in a cluster that all tests of this process share."""
    with postgres.shared_schemas().borrow() as url:
        yield url
