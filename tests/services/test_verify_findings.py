"""``verify`` of tables in real databases, through the command line: it reports exactly the wrong objects.

Each finding is repaired by ``--repair``, and a consumer of the documents then has the rows of the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.consumer import Inbox, Objects, part_files, read_files
from tests.services.databases import Place

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "log"
table = "event_log"
{source}
[database]
url = "{url}"
[dispatch]
path = "{folder}/out"
"""
USERS = "CREATE TABLE usr (idu INTEGER PRIMARY KEY, fname VARCHAR(9), lname VARCHAR(9))"
MODIFY_ASSOCIATION = "modify-association"


@dataclass(frozen=True)
class Job:
    """A job that publishes the event log of some tables to files."""

    place: Place
    folder: Path
    key_change: str = "delete-and-insert"

    def start(self, *tables: str, source: str = "") -> Job:
        """Logs tables with triggers."""
        named = [word for table in tables for word in ("--table", table)]
        words = ("--style", "per-field", "--key-change", self.key_change, "--apply")
        assert self.run("ddl", "--database", self.place.url, *named, *words).exit_code == 0
        if self.key_change == MODIFY_ASSOCIATION:
            source += f'key_change = "{MODIFY_ASSOCIATION}"'
        text = JOB.format(source=source, url=self.place.url, folder=self.folder)
        self.path.write_text(text)
        return self

    @property
    def path(self) -> Path:
        return self.folder / "job.toml"

    def run(self, *words: str) -> Result:
        result = CliRunner().invoke(cli, words)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return result

    def publish(self) -> None:
        result = self.run("publish", "-c", str(self.path))
        assert result.exit_code == 0, result.output

    def verify(self, *words: str) -> tuple[int, str]:
        """The exit code, and what people see."""
        result = self.run("verify", "-c", str(self.path), *words)
        return result.exit_code, result.output

    def counts(self) -> dict[str, dict[str, int]]:
        """The results of each table by kind, equal objects left out."""
        report = json.loads(self.run("verify", "-c", str(self.path), "--json").stdout)
        tables = report["outcome"]["tables"]
        return {table["table"]: table["counts"] for table in tables if table["counts"]}

    def execute_unlogged(self, table: str, *statements: str) -> None:
        """Executes statements, of which nothing is logged: the changes of a restored backup."""
        log = self.place.query("SELECT max(record_id) FROM event_log")[0][0]
        self.place.execute(*statements, f"DELETE FROM event_log WHERE record_id > {log}")

    def objects(self) -> dict[str, dict[str, list[str]]]:
        """The objects of a consumer: the values of each attribute."""
        objects = Objects()
        objects.apply_all(Inbox().in_order(read_files(part_files(self.folder / "out"))))
        return {
            name.split(",schema=")[0]: {
                attribute: sorted(value.text for value in values)
                for attribute, values in known.attributes.items()
            }
            for name, known in objects.items()
        }

    def repair(self, *words: str) -> str:
        """Repairs, and verifies that nothing is left to repair."""
        code, text = self.verify("--repair", *words)
        assert code == 0, text
        code, rest = self.verify()
        assert code == 0, rest
        return text


def keys_of(objects: dict[str, object], table: str = "usr") -> set[str]:
    end = f",table={table}"
    return {name.removesuffix(end) for name in objects if name.endswith(end)}


def test_an_object_that_a_document_deletes_although_its_row_exists_is_missing(
    place: Place, tmp_path: Path
) -> None:
    place.execute(USERS)
    job = Job(place, tmp_path).start("usr")
    place.execute("INSERT INTO usr VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    job.publish()
    place.execute(
        "INSERT INTO event_log (table_key, event_type, table_name) VALUES ('idu=1', 4, 'usr')"
    )
    job.publish()
    assert keys_of(job.objects()) == {"idu=2"}
    code, text = job.verify()
    assert code == 3, text
    assert "1 equal, 1 missing" in text
    assert "never published" not in text
    job.repair()
    assert job.objects()["idu=1,table=usr"] == {"fname": ["a"], "lname": ["x"]}


def test_restored_rows_whose_delete_was_published_are_missing(place: Place, tmp_path: Path) -> None:
    place.execute(USERS)
    job = Job(place, tmp_path).start("usr")
    place.execute("INSERT INTO usr VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    job.publish()
    place.execute("DELETE FROM usr")
    job.publish()
    job.execute_unlogged(
        "usr", "INSERT INTO usr VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')"
    )
    place.execute("UPDATE usr SET fname = 'B' WHERE idu = 2")
    job.publish()
    # of row 3 there is no document: it may be older than the log
    (counts,) = job.counts().values()
    assert counts == {"missing": 1, "different": 1, "never-published": 1}
    job.repair()
    objects = job.objects()
    assert keys_of(objects) == {"idu=1", "idu=2"}
    assert objects["idu=2,table=usr"] == {"fname": ["B"], "lname": ["y"]}


def test_objects_that_exchange_keys_in_a_wrong_order_are_missing(
    postgres: Place, tmp_path: Path
) -> None:
    postgres.execute(
        "CREATE TABLE usr (idu INTEGER PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, fname VARCHAR(9))"
    )
    job = Job(postgres, tmp_path, MODIFY_ASSOCIATION).start("usr")
    postgres.execute("INSERT INTO usr VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    job.publish()
    postgres.execute("UPDATE usr SET idu = idu + 1")
    job.publish()
    lost = 3 - len(job.objects())
    assert lost
    code, text = job.verify()
    assert code == 3, text
    assert f"{lost} missing" in text
    job.repair()
    names = {name: values["fname"] for name, values in job.objects().items()}
    assert names == {f"idu={key},table=usr": [name] for key, name in ((2, "a"), (3, "b"), (4, "c"))}


@pytest.mark.parametrize("renamed", ["7", "2"])
def test_an_object_whose_key_a_document_changed_although_its_row_has_it_is_missing(
    place: Place, tmp_path: Path, renamed: str
) -> None:
    place.execute(USERS)
    job = Job(place, tmp_path, MODIFY_ASSOCIATION).start("usr")
    place.execute("INSERT INTO usr VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    job.publish()
    place.execute(
        "INSERT INTO event_log (table_key, event_type, table_name, column_name, old_value, new_value)"
        f" VALUES ('idu=1', 2, 'usr', 'idu', '1', '{renamed}')"
    )
    job.publish()
    code, text = job.verify()
    assert code == 3, text
    assert "1 missing" in text
    job.repair()
    names = {name: values["fname"] for name, values in job.objects().items()}
    assert names == {"idu=1,table=usr": ["a"], "idu=2,table=usr": ["b"]}
