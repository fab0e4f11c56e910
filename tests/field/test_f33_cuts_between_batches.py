"""The place where a stream is cut into batches does not matter.

Results changed with the place where a stream of inserts, updates and deletes was cut; ``change_seq`` is
the order.
"""

from __future__ import annotations

import random

import pytest

from publisher.consumer import Delete
from tests.field.changes import change, change_file
from tests.support.workbench import Workbench, event, log_file

pytestmark = pytest.mark.long

COLUMNS = ("id", "a", "b")
ALL = (7, 8, 9)
JOB = """
[[sources]]
name = "changes"
format = "{format}"
snapshots = ["in"]
{more}
[dispatch]
path = "out"
[run]
engine = "local"
"""


def stream(seed: int) -> list[dict[str, str | None]]:
    """Operations on three keys, all at one time, with before images."""
    rng = random.Random(seed)
    rows: dict[str, dict[str, str | None]] = {}
    records: list[dict[str, str | None]] = []
    for number in range(1, 13):
        key = str(rng.randrange(3))
        values = {"a": rng.choice(["x", "y", None]), "b": rng.choice(["p", "q"])}
        if key not in rows:
            records.append(change(number, "I", ALL, id=key, **values))
            rows[key] = values
        elif rng.random() < 0.3:
            records.append(change(number, "D", [7], id=key, **rows.pop(key)))
        else:
            changed = [name for name in ("a", "b") if values[name] != rows[key][name]]
            records.append(change(number, "B", (), id=key, **rows[key]))
            bits = [8 + ("a", "b").index(name) for name in changed]
            records.append(change(number, "U", bits, id=key, **values))
            rows[key] = values
    return records


def outcome(bench: Workbench, batches: list[list[dict[str, str | None]]]) -> tuple[object, ...]:
    more = (
        'source_table = "usr"\nkey = ["id"]\nheader_columns = 7\nmask_order = "msb"\npair_wait = 60'
    )
    bench.write("job.toml", JOB.format(format="change-table", more=more))
    for number, batch in enumerate(batches):
        bench.write(f"in/{number:02}.csv", change_file(COLUMNS, batch))
        bench.publish()
    deletes = sum(isinstance(operation, Delete) for operation in bench.operations())
    return bench.objects(), deletes, bench.rejects()


@pytest.mark.parametrize("seed", [1, 2])
def test_files_of_a_change_table_may_be_cut_anywhere(bench: Workbench, seed: int) -> None:
    records = stream(seed)
    whole = outcome(Workbench(bench.folder / "whole"), [records])
    for cut in range(1, len(records), 3):
        batches = [records[:cut], records[cut:]]
        assert outcome(Workbench(bench.folder / f"cut-{cut}"), batches) == whole, cut


def test_files_of_an_event_log_may_be_cut_anywhere(bench: Workbench) -> None:
    rng = random.Random(3)
    events = [
        event(f"idu={rng.randrange(3)}", rng.choice([1, 3, 3, 4]), "fname", new=str(n), record_id=n)
        for n in range(1, 25)
    ]
    found = []
    for size in (24, 12, 5):
        place = Workbench(bench.folder / str(size))
        place.write("job.toml", JOB.format(format="event-log", more=""))
        for at in range(0, 24, size):
            place.write(f"in/{at:02}.csv", log_file(events[at : at + size]))
            place.publish()
        found.append(place.objects())
    assert found[0] == found[1] == found[2]
