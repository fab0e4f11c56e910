"""Changed keys of compared tables: objects keep their identity where a value identifies them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from publisher.config.job_file import load
from publisher.consumer import Inbox, ModifyAssociation, Objects, part_files, read_files
from publisher.errors import FatalError
from publisher.formats.migration import Migration
from publisher.ledger.conservation import RunReport
from publisher.runs import migrate as migrating
from publisher.runs.publish import publish as publish_job
from tests.support.compared_classes import (
    Rows,
    expected_objects,
    objects_in,
    publish_classes,
    write_classes,
)

pytestmark = pytest.mark.usefixtures("local_engine")

JOINED = """state = "values"
key_change = "modify-association"
key_change_by = { USR = ["fname"] }
"""
Users = Mapping[str, str | None]


class Mirror:
    """A job, and a consumer of its documents that accepts no contradiction."""

    def __init__(self, base: Path, more: str = JOINED, rest: str = "") -> None:
        self.base, self.more, self.rest = base, more, rest
        self.objects = Objects(strict=True)
        self.inbox = Inbox()
        self.renames: list[tuple[str, str]] = []

    def publish(self, tables: Mapping[str, Rows]) -> RunReport:
        """Publishes the tables; ``renames`` has the changes of keys of this run."""
        write_classes(self.base, tables)
        report = publish_classes(self.base, self.more, self.rest, lanes=4)
        self.renames = []
        if report.run != "job":  # else the files were as before
            files = part_files(self.base / "out" / "runs" / report.run)
            for delivery in self.inbox.in_order(read_files(files)):
                self.objects.apply_all([delivery])
                self.renames += [
                    (key_in(change.old), key_in(change.new))
                    for change in delivery.operations
                    if isinstance(change, ModifyAssociation)
                ]
        return report


def key_in(association: str) -> str:
    return association.partition(",")[0].removeprefix("idu=")


def tables_of(users: Users, phones: Rows = (), member: Rows = ()) -> dict[str, Rows]:
    return {"usr": tuple(users.items()), "phone": phones, "member": member}


def expected_renames(before: Users, now: Users) -> set[tuple[str, str]]:
    """The oracle: keys whose name is elsewhere now, and nowhere else before or now; without circles."""
    keys = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key)]
    names_before = Counter(before[key] for key in keys if before.get(key) is not None)
    names_now = Counter(now[key] for key in keys if now.get(key) is not None)
    unknown = {key for key in before.keys() & now.keys() if None in (before[key], now[key])}
    moves = {
        old: new
        for old in keys
        for new in keys
        if old != new and not unknown & {old, new}
        if before.get(old) is not None and before.get(old) == now.get(new)
        if names_before[before[old]] == names_now[before[old]] == 1
    }
    for key in list(moves):
        seen = [key]
        while seen[-1] in moves and seen[-1] not in seen[:-1]:
            seen.append(moves[seen[-1]])
        if len(seen) > 1 and seen[-1] == key:
            for each in seen:
                moves.pop(each, None)
    return set(moves.items())


names = st.none() | st.sampled_from(["Ann", "Eve", 'Lu"=+,', "Zoë", "A b", ""])
users = st.dictionaries(st.integers(1, 9).map(str), names, max_size=7)
values = st.lists(st.tuples(st.integers(1, 9).map(str), st.sampled_from("xyz")), max_size=6)

documents = st.sampled_from(["", "[documents]\nminimal = true", "[documents]\nbatch_size = 128"])


@given(
    st.lists(st.tuples(users, values, values), min_size=2, max_size=4),
    st.sampled_from([1, 4]),
    documents,
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_objects_keep_their_identity_through_comparisons(
    steps: list[tuple[Users, Rows, Rows]], buckets: int, rest: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder), f"{JOINED}buckets = {buckets}\n", rest)
        before: Users = {}
        for now, phones, members in steps:
            member = tuple((key, str(" xyz".index(value or ""))) for key, value in members)
            tables = tables_of(
                now,
                tuple(row for row in phones if row[0] in now),
                tuple(row for row in member if row[0] in now),
            )
            report = mirror.publish(tables)
            assert objects_in(mirror.objects) == expected_objects(tables)
            assert sorted(mirror.renames) == sorted(expected_renames(before, now))
            if report.run != "job":
                assert report.read == len(now) + len(before.keys() - now.keys())
            before = now


def test_values_of_children_go_with_their_object(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.publish(tables_of({"1": "Ann"}, (("1", "11"), ("1", "12")), (("1", "7"),)))
    report = mirror.publish(tables_of({"5": "Ann"}, (("5", "12"), ("5", "13")), (("5", "7"),)))
    assert report.operations == {"modify-association": 1, "modify": 1}
    assert (report.read, mirror.renames) == (2, [("1", "5")])


def test_without_the_setting_a_changed_key_is_a_delete_and_an_insert(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, 'state = "values"')
    mirror.publish(tables_of({"1": "Ann"}))
    assert mirror.publish(tables_of({"5": "Ann"})).operations == {"delete": 1, "add": 1}


def test_exchanged_keys_are_changes_of_attributes(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.publish(tables_of({"1": "Ann", "2": "Eve"}))
    assert mirror.publish(tables_of({"1": "Eve", "2": "Ann"})).operations == {"modify": 2}


def test_the_first_comparison_can_be_with_earlier_files(tmp_path: Path) -> None:
    write_classes(tmp_path, tables_of({"1": "Ann"}), "earlier")
    mirror = Mirror(tmp_path, f'{JOINED}before = ["earlier"]\n')
    mirror.objects = Objects()
    mirror.publish(tables_of({"5": "Ann"}))
    assert mirror.renames == [("1", "5")]


@pytest.mark.parametrize("option", ["all", "future", "resynchronise"])
def test_keys_are_joined_after_every_first_comparison(tmp_path: Path, option: str) -> None:
    mirror = Mirror(tmp_path, f'{JOINED}startup_option = "{option}"\n')
    mirror.objects = Objects()
    mirror.publish(tables_of({"1": "Ann"}))
    assert mirror.renames == []
    mirror.publish(tables_of({"5": "Ann"}))
    assert mirror.renames == [("1", "5")]


def test_moved_objects_do_not_count_as_deleted(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.publish(tables_of({str(n): f"name {n}" for n in range(300)}))
    mirror.publish(tables_of({str(n + 1000): f"name {n}" for n in range(300)}))
    assert len(mirror.renames) == 300
    with pytest.raises(FatalError, match="300 of 300 known rows of table usr are missing"):
        mirror.publish(tables_of({str(n): f"other {n}" for n in range(300)}))


def test_objects_whose_keys_others_have_count_as_deleted(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, f"{JOINED}most_deleted = 0.4\n")
    mirror.publish(tables_of({str(n): f"name {n}" for n in range(300)}))
    shifted = {str(n): f"name {n + 150}" for n in range(150)}
    with pytest.raises(FatalError, match="150 of 300 known rows of table usr are missing"):
        mirror.publish(tables_of(shifted | {str(n): f"new {n}" for n in range(150, 300)}))


def test_an_unreadable_row_joins_no_keys(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.publish(tables_of({"1": "Ann", "2": "Eve"}))
    assert mirror.publish(tables_of({"5": "Ann", "x": "Eve"})).rejected == 1
    assert mirror.renames == []
    assert objects_in(mirror.objects).keys() == {"1", "2", "5"}
    mirror.publish(tables_of({"5": "Ann", "2": "Eve"}))
    assert objects_in(mirror.objects).keys() == {"2", "5"}


def test_an_unreadable_row_of_a_child_table_joins_no_keys(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.publish(tables_of({"1": "Ann"}, (("1", "11"),)))
    report = mirror.publish(tables_of({"5": "Ann"}, (("5", "11"), ("5", "12", "too many"))))
    assert report.rejected == 1
    assert report.operations == {"delete": 1, "add": 1}
    tables = tables_of({"5": "Ann"}, (("5", "11"), ("5", "12")))
    mirror.publish(tables)
    assert objects_in(mirror.objects) == expected_objects(tables)


def test_migrated_rows_are_not_joined(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path)
    mirror.publish(tables_of({"1": "Ann", "2": "Eve"}))
    write_classes(tmp_path, tables_of({"5": "Ann", "2": "Eve"}))
    job = load(tmp_path / "job.toml")
    assert migrating.migrate(job, Migration()).operations == {"add": 2}
    assert publish_job(job).operations == {"delete": 1}


@pytest.mark.parametrize("columns", ['"idu"', '"phone.no"', '"nothing"'])
def test_other_columns_are_refused(tmp_path: Path, columns: str) -> None:
    mirror = Mirror(tmp_path, JOINED.replace('"fname"', columns))
    with pytest.raises(FatalError, match="key_change_by names"):
        mirror.publish(tables_of({"1": "Ann"}))
