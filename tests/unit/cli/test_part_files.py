"""How many part files ``replay`` writes: it follows from files and settings, not from the machine."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli

pytestmark = pytest.mark.usefixtures("local_engine")

HEADER = (
    "record_id,table_key,status,event_type,event_time,perpetrator,"
    "table_name,column_name,old_value,new_value\n"
)


def write_log(path: Path, rows: int, size: int = 1) -> None:
    """Writes inserts of ``rows`` users, each with a value of ``size`` characters."""
    with path.open("w", encoding="utf-8") as file:
        file.write(HEADER)
        for n in range(1, rows + 1):
            file.write(f"{n},idu={n},N,1,2026-01-01 00:00:00,anna,indirect.usr,a,,{'x' * size}\n")


def replay(target: Path, *options: str) -> tuple[list[str], str]:
    """Replays the log; returns the names of the part files, and the run."""
    result = CliRunner().invoke(cli, ["replay", "log.csv", "--to", str(target), "--json", *options])
    assert result.exit_code == 0, result.output
    return sorted(path.name for path in target.glob("part-*")), json.loads(result.stdout)["run"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_small_input_makes_one_part_file_in_the_order_of_the_log(here: Path) -> None:
    write_log(here / "log.csv", 20)
    parts, _ = replay(here / "out")
    assert parts == ["part-00000.xds"]
    lines = (here / "out" / "part-00000.xds").read_text("utf-8").splitlines()
    places = [line.partition("<association>")[2].partition(",")[0] for line in lines]
    assert places == [f"idu={n}" for n in range(1, 21)]


def test_a_number_that_is_set_wins_and_the_run_stays_the_same(here: Path) -> None:
    write_log(here / "log.csv", 20)
    (here / "job.toml").write_text("[source]\n[job]\nname = 'replay'\n[run]\nlanes = 2\n", "utf-8")
    _, run = replay(here / "out")
    parts, other = replay(here / "option", "--lanes", "3")
    assert (len(parts), other) == (3, run)
    parts, _ = replay(here / "file", "-c", "job.toml")
    assert len(parts) == 2
    parts, _ = replay(here / "both", "-c", "job.toml", "--lanes", "8")
    assert len(parts) == 8


def test_a_rehearsal_shows_the_first_documents_of_the_one_file(here: Path) -> None:
    write_log(here / "log.csv", 20)
    result = CliRunner().invoke(cli, ["replay", "log.csv", "--to", "out", "--dry-run", "--json"])
    samples = json.loads(result.stdout)["samples"]
    assert [sample.partition("<association>")[2][:6] for sample in samples] == [
        "idu=1,",
        "idu=2,",
        "idu=3,",
    ]


def test_larger_input_makes_eight(here: Path) -> None:
    write_log(here / "log.csv", 33, 1_000_000)
    parts, _ = replay(here / "out")
    assert len(parts) == 8
