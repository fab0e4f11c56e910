"""One kill -9 for each phase: nothing is lost, doubled or out of order.  ``./run chaos`` has more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from publisher.engine.contract import EngineName
from tests.chaos.marks import PARTS, PHASES, TRANSACTION
from tests.chaos.scenarios import KillsToKafka
from tests.services.databases import Place
from tests.services.topics import Topics

# a kill in an open transaction is one in its phase, too
ALL = [phase for phase in PHASES if phase != PARTS[TRANSACTION]] + [TRANSACTION]
IN_TASKS = ["plan", TRANSACTION]
"""Phases of Spark's workers.  The other phases are the driver's, and the same on each engine."""


@pytest.mark.parametrize(
    ("engine", "wanted"), [("local", ALL), pytest.param("spark", IN_TASKS, marks=pytest.mark.long)]
)
def test_killed_in_each_phase_on_the_way_to_kafka(
    postgres: Place, kafka: Topics, tmp_path: Path, engine: EngineName, wanted: Sequence[str]
) -> None:
    scenario = KillsToKafka(
        postgres.url,
        kafka,
        tmp_path,
        seed=1,
        events=3_000,
        wanted=wanted,
        engine=engine,
        last_engine="local",
    )
    verdict = scenario.run(len(wanted))
    assert verdict.problems == [], verdict
