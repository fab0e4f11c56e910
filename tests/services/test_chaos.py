"""One kill -9 for each phase: nothing is lost, doubled or out of order.  ``./run chaos`` has more."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.marks import PARTS, PHASES, TRANSACTION
from tests.chaos.scenarios import KillsToKafka
from tests.services.databases import Place
from tests.services.topics import Topics


def test_killed_in_each_phase_on_the_way_to_kafka(
    postgres: Place, kafka: Topics, tmp_path: Path
) -> None:
    # a kill in an open transaction is one in its phase, too
    wanted = [phase for phase in PHASES if phase != PARTS[TRANSACTION]] + [TRANSACTION]
    scenario = KillsToKafka(postgres.url, kafka, tmp_path, seed=1, events=3_000, wanted=wanted)
    verdict = scenario.run(len(PHASES))
    assert verdict.problems == [], verdict
