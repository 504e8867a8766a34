"""Exercises are judged by one process for all of the course's tests; after them it ends, as with a kernel."""

from collections.abc import Iterator

import pytest

from course.judge import client


@pytest.fixture(scope="package", autouse=True)
def judge() -> Iterator[None]:
    """No test after these finds a process that it did not start."""
    yield
    client.end()
