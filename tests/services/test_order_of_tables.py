"""The order of documents of several compared tables, whatever the size of batches and the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import start_program

TABLES = ("dep", "prs", "usr")
ROWS = 2_000
JOB = """\
[[sources]]
name = "hr"
format = "triggerless"
snapshots = [{snapshots}]
exclude_columns = ["*.pad"]
[tables.dep]
key = ["id"]
[tables.prs]
key = ["id"]
[tables.usr]
key = ["id"]
[documents]
minimal = {minimal}
[dispatch]
path = "{folder}/out"
[run]
lanes = 2
engine = "{engine}"
[ledger]
path = "{folder}/ledger"
"""


def publish(folder: Path, padding: int, engine: str = "local", minimal: str = "false") -> list[str]:
    """Part files of a job whose batches hold the fewer rows the wider its rows are."""
    folder.mkdir()
    for table in TABLES:
        rows = [f"{n},{table}{n},{'x' * padding}\n" for n in range(ROWS)]
        (folder / f"{table}.csv").write_text("".join(["id,name,pad\n", *rows]))
    snapshots = ", ".join(f'"{folder}/{table}.csv"' for table in TABLES)
    names = {"folder": folder, "snapshots": snapshots, "engine": engine, "minimal": minimal}
    (folder / "hr.toml").write_text(JOB.format(**names))
    process = start_program(["publish", "-c", str(folder / "hr.toml")], stdout=-1, stderr=-1)
    output = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return [path.read_text() for path in sorted((folder / "out").glob("runs/*/part-*.xds"))]


@pytest.mark.parametrize("minimal", ["false", "true"])
def test_part_files_do_not_depend_on_the_size_of_batches(tmp_path: Path, minimal: str) -> None:
    narrow, middle, wide = (
        publish(tmp_path / str(padding), padding, minimal=minimal) for padding in (0, 2_000, 5_000)
    )
    assert [len(part) > 100_000 for part in narrow] == [True, True]
    assert narrow == middle
    assert narrow == wide


@pytest.mark.long
def test_part_files_do_not_depend_on_the_engine(tmp_path: Path) -> None:
    local, spark = (publish(tmp_path / engine, 400, engine) for engine in ("local", "spark"))
    assert local == spark
