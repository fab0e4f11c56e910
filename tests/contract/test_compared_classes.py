"""The promise of every engine for compared classes: the objects of the oracle, in the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from publisher.consumer import Objects
from publisher.engine.local import LocalEngine
from publisher.ledger.conservation import RunReport
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


def rename(tables: dict[str, Rows], step: int) -> dict[str, Rows]:
    """Gives every third user the key that is ``step`` greater, and with it its rows of other tables."""

    def key_now(key: str | None) -> str | None:
        return str(int(key) + step) if key is not None and int(key) % 3 == 0 else key

    return {name: [(key_now(row[0]), *row[1:]) for row in rows] for name, rows in tables.items()}


def documents_of(
    base: Path, tables: Sequence[dict[str, Rows]], mores: Sequence[str]
) -> tuple[dict[Path, bytes], RunReport]:
    """Publishes snapshots one after the other; returns all documents and the last report."""
    base.mkdir()
    consumer = Objects(strict=True)
    for snapshot_tables, more in zip(tables, mores, strict=True):
        write_classes(base, snapshot_tables)
        report = publish_classes(base, more, lanes=3)
        follow(consumer, base, report)
        assert objects_in(consumer) == expected_objects(snapshot_tables)
    runs = base / "out" / "runs"
    return {p.relative_to(runs): p.read_bytes() for p in runs.rglob("part-*.xds")}, report


class TestComparedClasses:
    @pytest.mark.parametrize("state", ["columns", "values"])
    def test_documents_lead_from_one_snapshot_to_the_next(
        self, engine: str, state: str, local_engine: EngineSwitch, tmp_path: Path
    ) -> None:
        tables = [snapshot(0), snapshot(1)]
        more = f'state = "{state}"\nbuckets = '
        switch_to(engine, local_engine)
        documents, report = documents_of(tmp_path / "0", tables, [f"{more}4", f"{more}4"])
        assert report.operations.keys() == {"add", "modify", "delete"}
        switch_to("local", local_engine)
        again, _ = documents_of(tmp_path / "1", tables, [f"{more}1", f"{more}4"])
        assert documents == again

    def test_objects_with_changed_keys_stay_one_object(
        self, engine: str, local_engine: EngineSwitch, tmp_path: Path
    ) -> None:
        tables = [snapshot(0), rename(snapshot(0), 3), rename(snapshot(1), 1000)]
        more = (
            'state = "values"\nkey_change = "modify-association"\n'
            'key_change_by = { usr = ["fname"] }\nbuckets = '
        )
        switch_to(engine, local_engine)
        documents, report = documents_of(tmp_path / "0", tables, [f"{more}4"] * 3)
        assert report.operations["modify-association"] > 100
        switch_to("local", local_engine)
        again, _ = documents_of(tmp_path / "1", tables, [f"{more}1", f"{more}4", f"{more}1"])
        assert documents == again
