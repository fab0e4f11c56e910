"""The order of mask bytes, inferred from the masks of deletes and a key from another place."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from publisher.cli.main import cli
from publisher.database.catalogue import catalogue_of
from publisher.database.connection import Database
from publisher.database.options import DatabaseOptions
from publisher.errors import FatalError
from publisher.formats.change_table.live_table import LiveChangeTable
from publisher.formats.change_table.message_splits import MessageLines
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.change_table.source import ChangeTable
from publisher.formats.live.table_split import DatabaseTable
from publisher.model.catalogue import Catalogue, JobCatalogue, Table
from publisher.xds.values import text_of
from tests.support.change_table_files import record, seq, write
from tests.support.prepare import prepare_here

KEY = JobCatalogue([Table("hr", "usr", key=("IDU",))])
WIDE = {f"d{n}": None for n in range(24)}


def deletes(tmp_path: Path, mask: str) -> Path:
    row = record(1, "D", idu="1") | {"header__change_mask": mask}
    return write(tmp_path / "hr.usr__ct.csv", [row | WIDE])


def reading_of(path: Path, catalogue: Catalogue, **changes: object) -> tuple[str, int] | None:
    options = ChangeTableOptions(header_columns=0, **changes)  # type: ignore[arg-type]
    with prepare_here(ChangeTable(options), [path], 1, catalogue) as prepared:
        source = prepared.source
    assert isinstance(source, ChangeTable)
    (table,) = source.facts.tables
    return table.masks.reading


@pytest.mark.parametrize(("mask", "order"), [("000001", "msb"), ("010000", "lsb")])
def test_a_key_of_a_catalogue_shows_the_order(tmp_path: Path, mask: str, order: str) -> None:
    assert reading_of(deletes(tmp_path, mask), KEY) == (order, 0)


@pytest.mark.parametrize(
    "catalogue",
    [
        JobCatalogue([]),
        JobCatalogue([Table("hr", "usr")]),
        JobCatalogue([Table("hr", "other", key=("idu",))]),
        JobCatalogue([Table("hr", "usr", key=("idu", "not_there"))]),
    ],
)
def test_without_a_whole_key_it_refuses_to_guess(tmp_path: Path, catalogue: Catalogue) -> None:
    with pytest.raises(FatalError, match="mask_order"):
        reading_of(deletes(tmp_path, "000001"), catalogue)


def test_deletes_that_show_another_index_are_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="mask_order"):
        reading_of(deletes(tmp_path, "000001"), KEY, key_from_deletes=False)


def messages(tmp_path: Path, *masks: str, **headers: str) -> Path:
    """Messages of deletes; the first of the columns is the key."""
    named = {"operation": "DELETE"} | headers
    path = tmp_path / "messages.jsonl"
    path.write_text(
        "".join(
            json.dumps(
                {
                    "data": {"idu": number} | WIDE,
                    "beforeData": None,
                    "headers": named | {"changeSequence": seq(number), "changeMask": mask},
                }
            )
            + "\n"
            for number, mask in enumerate(masks, 1)
        )
    )
    return path


def order_in_messages(path: Path, catalogue: Catalogue, **changes: object) -> str | None:
    options = ChangeTableOptions(layout="messages", source_table="usr", **changes)  # type: ignore[arg-type]
    with prepare_here(ChangeTable(options), [path], 1, catalogue) as prepared:
        (split,) = prepared.splits
    assert isinstance(split.payload, MessageLines)
    return None if split.payload.reading is None else split.payload.reading.order


@pytest.mark.parametrize(("mask", "order"), [("000001", "msb"), ("010000", "lsb")])
@pytest.mark.parametrize("key", [{"key": ("idu",)}, {}])
def test_a_known_key_shows_the_order_in_messages(
    tmp_path: Path, mask: str, order: str, key: dict[str, tuple[str, ...]]
) -> None:
    catalogue = JobCatalogue([]) if key else KEY
    assert order_in_messages(messages(tmp_path, mask, mask), catalogue, **key) == order


def test_messages_without_a_known_key_are_not_guessed(tmp_path: Path) -> None:
    path = messages(tmp_path, "000001")
    for catalogue in (JobCatalogue([]), JobCatalogue([Table("hr", "other", key=("idu",))])):
        with pytest.raises(FatalError, match="mask_order"):
            order_in_messages(path, catalogue)
    with pytest.raises(FatalError, match="mask_order"):
        order_in_messages(path, KEY, key_from_deletes=False)


def test_messages_whose_deletes_contradict_each_other_are_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(FatalError, match="mask_order"):
        order_in_messages(messages(tmp_path, "000001", "010000"), KEY)


def test_the_catalogue_is_queried_only_to_explain_masks_of_deletes(
    tmp_path: Path,
) -> None:
    class Asked(JobCatalogue):
        tables = 0

        def table(self, schema: str | None, name: str) -> Table | None:
            self.tables += 1
            return super().table(schema, name)

    asked = Asked([])
    path = write(tmp_path / "hr.usr__ct.csv", [record(1, "I", range(10), idu="1")])
    with prepare_here(ChangeTable(ChangeTableOptions()), [path], 1, asked):
        pass
    assert asked.tables == 0


SOURCE = '[[sources]]\nformat = "change-table"\nheader_columns = {headers}\n'
TABLES = '[tables.usr]\nschema = "hr"\nkey = ["idu"]\n'


def run_inspect(tmp_path: Path, job: str) -> tuple[int, str]:
    (tmp_path / "job.toml").write_text(job)
    path = deletes(tmp_path, "000001")
    result = CliRunner().invoke(cli, ["inspect", str(path), "-c", str(tmp_path / "job.toml")])
    return result.exit_code, result.output


def test_commands_ask_the_tables_of_the_job_file(tmp_path: Path) -> None:
    source = SOURCE.format(headers=0)
    code, output = run_inspect(tmp_path, source)
    assert code != 0
    assert "mask_order" in output
    code, output = run_inspect(tmp_path, source + TABLES)
    assert code == 0, output
    assert json.loads(output)["key"] == "idu=1"


def database(folder: Path) -> str:
    path = folder / "hr.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname TEXT)")
        columns = ", ".join(f"d{n} TEXT" for n in range(24))
        connection.execute(
            "CREATE TABLE usr__ct (header__change_seq TEXT, header__change_oper TEXT,"
            f" header__change_mask TEXT, idu INTEGER, {columns})"
        )
        insert = "INSERT INTO usr__ct VALUES (?, 'D', '000001', 1" + ", NULL" * 24 + ")"
        connection.execute(insert, (seq(1),))
    return f"sqlite:///{path}"


def test_commands_ask_the_database_for_files(tmp_path: Path) -> None:
    url = database(tmp_path)
    job = SOURCE.format(headers=0) + f'source_table = "usr"\n[database]\nurl = "{url}"\n'
    code, output = run_inspect(tmp_path, job)
    assert code == 0, output
    assert json.loads(output)["key"] == "idu=1"


def test_a_live_table_asks_the_database_for_the_key_of_its_table(tmp_path: Path) -> None:
    url = database(tmp_path)
    options = ChangeTableOptions(header_columns=0, source_table="usr")
    live = LiveChangeTable(
        options, table=DatabaseTable(DatabaseOptions(url=url), "usr__ct", text_of)
    )
    with (
        pytest.raises(FatalError, match="mask_order"),
        prepare_here(live, (), 1, JobCatalogue(())),
    ):
        pass
    with (
        Database(DatabaseOptions(url=url)) as asked,
        prepare_here(live, (), 1, catalogue_of(asked)) as prepared,
    ):
        (table,) = prepared.source.facts.tables  # type: ignore[attr-defined]
        assert table.masks.reading == ("msb", 0)
