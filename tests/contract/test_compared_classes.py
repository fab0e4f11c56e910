"""The promise of every engine for compared classes: the objects of the oracle, in the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from publisher.consumer import Objects
from publisher.engine.local.engine import LocalEngine
from tests.support.compared_classes import (
    Rows,
    expected_objects,
    follow,
    objects_in,
    publish_classes,
    write_classes,
)
from tests.support.local_engine import EngineSwitch

ENGINES = (
    "local",
    "local that spills",
    pytest.param("spark", marks=pytest.mark.xdist_group("spark")),
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "spark":
        request.getfixturevalue("spark")
    return str(request.param)


def switch_to(engine: str, switch: EngineSwitch) -> None:
    if engine == "spark":
        switch.use_spark()
    else:
        switch.use(lambda: LocalEngine(memory=1) if "spills" in engine else LocalEngine())


def snapshot(later: int) -> dict[str, Rows]:
    """Users with phones and groups; later some rows of each table have come, gone or changed."""
    users = range(20 * later, 400 + 20 * later)
    return {
        "usr": [(str(n), f"name {n}" if n % 7 else None) for n in users],
        "phone": [
            (str(n), f"{n % 5}-{m + later * (n % 11 == 0)}") for n in users for m in range(n % 4)
        ],
        "member": [(str(n), str(m)) for n in users for m in range(n % 3) if n % 13 or not later],
    }


class TestComparedClasses:
    @pytest.mark.parametrize("state", ["columns", "values"])
    def test_documents_lead_from_one_snapshot_to_the_next(
        self, engine: str, state: str, local_engine: EngineSwitch, tmp_path: Path
    ) -> None:
        found: list[dict[Path, bytes]] = []
        for name in (engine, "local"):
            base = tmp_path / str(len(found))
            base.mkdir()
            switch_to(name, local_engine)
            consumer = Objects(strict=True)
            for later in (0, 1):
                write_classes(base, snapshot(later))
                more = f'state = "{state}"\nbuckets = {4 if later or not found else 1}'
                report = publish_classes(base, more)
                follow(consumer, base, report)
                assert objects_in(consumer) == expected_objects(snapshot(later))
            assert report.operations.keys() == {"add", "modify", "delete"}
            runs = base / "out" / "runs"
            found.append({p.relative_to(runs): p.read_bytes() for p in runs.rglob("part-*.xds")})
        assert found[0] == found[1]
