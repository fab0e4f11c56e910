"""Field cases: traps that people of this trade reported in public, each rewritten with own names and values.

One file a case.  The first lines of a file say what went wrong elsewhere and which rule decides what is
right.  Every case uses the program by commands, files and documents only.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.conftest import (
    kafka_cluster,
    mariadb,
    mariadb_url,
    one_node,
    own_kafka,
    place,
    postgres,
    postgres_url,
    pytest_runtest_teardown,
    three_nodes,
)
from tests.support.workbench import Workbench

__all__ = [
    "kafka_cluster",
    "mariadb",
    "mariadb_url",
    "one_node",
    "own_kafka",
    "place",
    "postgres",
    "postgres_url",
    "pytest_runtest_teardown",
    "three_nodes",
]


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """An empty directory to use the program in."""
    return Workbench(tmp_path)
