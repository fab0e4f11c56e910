"""``verify`` of tables in real databases, through the command line: it reports exactly the wrong objects.

Each finding is repaired by ``--repair``, and a consumer of the documents then has the rows of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from publisher.cli.main import cli
from publisher.consumer import Inbox, Objects, part_files, read_files
from tests.services.databases import Place, sqlite_place

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
COMPARISON = """
[[sources]]
name = "files"
format = "triggerless"
snapshots = ["{extract}"]
binary_text = "base64"
[tables.usr]
key = ["idu"]
columns = {{ idu = "int", fname = "string", pic = "octet" }}
[dispatch]
path = "{folder}/out"
"""
CHILDREN = """
[tables.usr.children]
phone = { key = ["idu"], columns = { pic = "octet" } }
"""
DEPARTMENTS = "CREATE TABLE dep (id VARCHAR(9) PRIMARY KEY, floor INTEGER)"
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

    def execute_unlogged(self, *statements: str) -> None:
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


def keys_of(objects: Iterable[str], table: str = "usr") -> set[str]:
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
    job.execute_unlogged("INSERT INTO usr VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')")
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


def test_an_unreadable_row_makes_no_object_of_its_table_surplus(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path / "test.db")
    place.execute("CREATE TABLE usr (idu INTEGER, fname TEXT, PRIMARY KEY (idu))", DEPARTMENTS)
    job = Job(place, tmp_path).start("usr", "dep")
    place.execute(
        "INSERT INTO usr VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO dep VALUES ('x', 1)"
    )
    job.publish()
    before = job.objects()
    # the key of user 2 becomes unreadable, user 3 and the department are gone
    job.execute_unlogged(
        "DROP TABLE usr",
        "CREATE TABLE usr (idu NUMERIC PRIMARY KEY, fname TEXT)",
        "INSERT INTO usr VALUES (1, 'A'), (NULL, 'b')",
        "DELETE FROM dep",
    )
    code, text = job.verify()
    assert code == 3, text
    assert "usr: 0 equal, 2 perhaps surplus, 1 different" in text
    assert "unreadable 1 rows" in text
    assert "the key column idu is NULL" in text
    assert "dep: 0 equal, 1 surplus" in text
    code, text = job.verify("--repair")
    assert code == 3, text
    assert "documents  2 (" in text
    assert "are not deleted: correct the rows" in text
    expected = before | {"idu=1,table=usr": {"fname": ["A"]}}
    del expected["id=x,table=dep"]
    assert job.objects() == expected
    # only the unreadable row is left
    for words in ((), ("--repair",), ("--repair", "--dry-run")):
        code, text = job.verify(*words)
        assert code == 3, text
        assert "are not deleted: correct the rows" in text
    assert job.objects() == expected
    job.execute_unlogged("DELETE FROM usr WHERE idu IS NULL")
    assert "2 surplus" in job.repair()
    assert set(job.objects()) == {"idu=1,table=usr"}


def test_unreadable_records_of_compared_files_make_no_object_surplus(tmp_path: Path) -> None:
    extract = tmp_path / "usr.csv"
    job = Job(sqlite_place(tmp_path / "none.db"), tmp_path)
    job.path.write_text(COMPARISON.format(folder=tmp_path, extract=extract))
    extract.write_text("idu,fname,pic\n1,a,QQ==\n2,b,QQ==\n3,c,QQ==\n")
    job.publish()
    before = job.objects()
    # a fault in the value of user 2, a line too short instead of user 3
    extract.write_text("idu,fname,pic\n1,a,QQ==\n2,b,Q\n3\n")
    code, text = job.verify()
    assert code == 3, text
    assert "usr: 1 equal, 2 perhaps surplus" in text
    assert "unreadable 2 rows" in text
    assert "usr.csv, record 3: " in text
    code, text = job.verify("--repair")
    assert code == 3, text
    assert "nothing to repair" in text
    assert job.objects() == before


def test_unreadable_rows_of_a_child_table_remove_no_values(tmp_path: Path) -> None:
    phones = tmp_path / "phone.csv"
    job = Job(sqlite_place(tmp_path / "none.db"), tmp_path)
    extract = tmp_path / "usr.csv"
    extract.write_text("idu,fname,pic\n1,a,QQ==\n2,b,QQ==\n")
    phones.write_text("idu,pic\n1,QQ==\n1,Qg==\n2,Qw==\n")
    text = COMPARISON.format(folder=tmp_path, extract=f'{extract}", "{phones}')
    job.path.write_text(text + CHILDREN)
    job.publish()
    before = job.objects()
    assert before["idu=1,table=usr"]["phone.pic"] == ["QQ==", "Qg=="]
    phones.write_text("idu,pic\n1,QQ==\n1,?\n,Qw==\n")
    code, text = job.verify("--repair")
    assert code == 3, text
    assert "usr: 2 equal\n" in text
    assert "unreadable 1 rows" in text
    assert "orphaned   1 rows" in text
    assert job.objects() == before


@pytest.mark.parametrize("other", ['"Usr"', '"usr_"'])
def test_tables_whose_names_differ_in_case_only_are_both_compared(
    postgres: Place, tmp_path: Path, other: str
) -> None:
    # USR could be either of two tables
    check_two_tables(postgres, tmp_path, other, declared="usr" if other == '"Usr"' else "USR")


def test_tables_whose_names_differ_in_case_only_are_both_compared_in_mariadb(
    mariadb: Place, tmp_path: Path
) -> None:
    check_two_tables(mariadb, tmp_path, "Usr")


def check_two_tables(place: Place, folder: Path, other: str, declared: str = "USR") -> None:
    for name in ("usr", other):
        place.execute(f"CREATE TABLE {name} (idu INTEGER PRIMARY KEY, fname VARCHAR(9))")
    job = Job(place, folder).start("usr", other)
    place.execute(
        "INSERT INTO usr VALUES (1, 'a'), (2, 'b')", f"INSERT INTO {other} VALUES (1, 'c')"
    )
    job.publish()
    with job.path.open("a") as file:  # a declared table, whose name the database may not fold
        file.write(f'[tables.{declared}]\ncolumns = {{ idu = "int" }}\n')
    code, text = job.verify()
    assert code == 0, text
    assert "no table to compare with" not in text
    job.execute_unlogged(
        "UPDATE usr SET fname = 'z' WHERE idu = 1", "DELETE FROM usr WHERE idu = 2"
    )
    code, text = job.verify()
    assert code == 3, text
    assert "usr: 0 equal, 1 surplus, 1 different" in text
    name = other.strip('"')
    assert f"{name}: 1 equal" in text
    job.repair()
