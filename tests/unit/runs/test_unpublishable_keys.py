"""Compared tables in which objects get keys that no document can have."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from publisher.config.job_file import load
from publisher.consumer import Inbox, Objects, part_files, read_files
from publisher.ledger.conservation import RunReport
from publisher.runs.publish import publish as publish_job

pytestmark = pytest.mark.usefixtures("local_engine")

JOB = """
[[sources]]
name = "hr"
format = "triggerless"
snapshots = ["data"]
most_deleted = 1
state = "values"
key_change = "modify-association"
key_change_by = {{ usr = ["guid"] }}
[tables.usr]
key = {key}
columns = {{ a = "string", b = "string", name = "string", note = "string", guid = "string" }}
[dispatch]
path = "out"
[job]
reject_budget = 100
[run]
lanes = 3
"""
BAD = "\x01"
Users = Mapping[str, tuple[str, str]]
"""Key and name of each user by the GUID."""


class KeyedTable:
    """A table with a key of some columns, a job, and a consumer that accepts no contradiction."""

    def __init__(self, base: Path, key: Sequence[str]) -> None:
        self._base, self._key = base, key
        (base / "data").mkdir()
        (base / "job.toml").write_text(JOB.format(key=list(key)))
        self._objects, self._inbox = Objects(strict=True), Inbox()
        self._runs = 0

    def publish(self, users: Users) -> RunReport:
        """Publishes the table; one more row changes each time."""
        self._runs += 1
        rows = [(key, f"m{key}", name, name, guid) for guid, (key, name) in users.items()]
        with (self._base / "data" / "usr.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "name", "note", "guid"])
            writer.writerows([*rows, ("z", "z", f"{self._runs}", "", "z")])
        report = publish_job(load(self._base / "job.toml"))
        files = part_files(self._base / "out" / "runs" / report.run)
        self._objects.apply_all(self._inbox.in_order(read_files(files)))
        return report

    def users(self) -> dict[str, tuple[str, str]]:
        """The users whom the consumer knows."""
        known = self._objects
        names = ((key.partition(",")[0].partition("+")[0], key) for key in known)
        return {
            str(known[key].text("guid")): (name.removeprefix("a="), str(known[key].text("name")))
            for name, key in names
            if name != "a=z"
        }


keys = st.sampled_from([*"abcd", f"e{BAD}", f"f{BAD}"])
tables = st.dictionaries(st.sampled_from("1234"), st.tuples(keys, st.sampled_from("xy"))).filter(
    lambda users: len({key for key, _ in users.values()}) == len(users)
)


@given(st.lists(tables, min_size=2, max_size=5), st.sampled_from(["a", "ab"]))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_consumers_have_all_objects_whose_keys_can_be_published(
    steps: list[Users], key: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = KeyedTable(Path(folder), key)
        for users in steps:
            report = table.publish(users)
            bad = {guid for guid, (name, _) in users.items() if BAD in name}
            good = {guid: user for guid, user in users.items() if guid not in bad}
            known = table.users()
            assert good.items() <= known.items()
            # the others keep their keys until then, and nobody else has these
            assert known.keys() - good.keys() <= bad
            assert report.rejected <= 2 * len(bad)
        corrected = {
            guid: (name.replace(BAD, "-"), text) for guid, (name, text) in steps[-1].items()
        }
        assert table.publish(corrected).rejected == 0
        assert table.users() == corrected


@pytest.mark.parametrize("key", ["a", "ab"])
def test_a_chain_is_rejected_once(tmp_path: Path, key: str) -> None:
    table = KeyedTable(tmp_path, key)
    table.publish({"1": ("a", "x"), "2": ("b", "y"), "3": ("c", "z")})
    moved = {"1": (f"e{BAD}", "x"), "2": ("a", "y"), "3": ("b", "z")}
    report = table.publish(moved)
    assert (report.rejected, report.operations["modify-association"]) == (1, 2)
    for _ in range(3):
        report = table.publish(moved)
        assert (report.rejected, report.operations) == (0, {"modify": 1})
    assert table.users() == {"2": ("a", "y"), "3": ("b", "z")}
