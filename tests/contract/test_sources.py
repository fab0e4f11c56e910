"""What every source of files promises.  A format joins by adding its samples to ``SAMPLES``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from publisher.errors import PublisherError
from publisher.model.change import RECORD_SCHEMA, TALLY, Outcome, Position
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.change_table.source import ChangeTable
from publisher.sources.contract import CarryOver, Context, Source
from publisher.sources.dispatch_queue import DispatchQueue
from publisher.sources.event_log.source import EventLog
from publisher.sources.files.file_splits import Split
from publisher.sources.files.options import SnapshotOptions
from publisher.sources.linkexpress import Linkexpress, LinkexpressOptions
from publisher.sources.live.table_reader import TableSplit
from publisher.sources.local_tasks import prepare_here
from publisher.sources.registry import FORMATS
from publisher.sources.triggerless.options import TriggerlessOptions
from publisher.sources.triggerless.source import Triggerless
from tests.support.change_table_files import HEADERS
from tests.support.change_table_files import record as change
from tests.support.change_table_files import seq as change_seq
from tests.support.change_table_files import write as write_changes
from tests.support.dispatch_queue_files import BIG, Queue, binary, delimited_text, image
from tests.support.dispatch_queue_files import OPTIONS as QUEUE
from tests.support.dispatch_queue_files import jack as queue_image
from tests.support.event_log_files import Row, Tables, csv_text, event, write
from tests.support.linkexpress_files import GROUP, JNL, NULL, OPEN, jack, little, mark
from tests.support.linkexpress_files import record as extract_record

EVENTS = [
    event(1, perpetrator="app", event_type=1),
    event(2, old_value='a "b",\nc', table_key="idu=2"),
    event(3, event_type=4, table_key="idu=2"),
    event(4, status="S"),
    event(5, event_type=9),
    event("six"),
    event(7, table_key="idu=3", column_name="photo", new_value="?"),
]
CONTEXT = Context(3, 5, Tables())


@dataclass(frozen=True)
class Sample:
    """A small input of a format: how to make it, and how many records a cut of it has."""

    name: str
    source: Source
    make: Callable[[Path], Path]
    records: int
    count: Callable[[bytes], int] | None
    """Records in the first bytes of the file, by rules of its own; ``None``: not counted."""
    unused: frozenset[str] = frozenset()
    """Columns that this format never fills."""


def count_csv(data: bytes) -> int:
    lines, quotes, filled = 0, 0, False
    for byte in data:
        quotes += byte == ord('"')
        filled = filled or byte not in b"\r\n"
        if byte == ord("\n") and quotes % 2 == 0:
            lines, filled = lines + filled, False
    return max(0, lines + filled - 1)  # without the header


def count_json(data: bytes) -> int:
    return sum(1 for line in data.split(b"\n") if line.strip())


def in_lines(path: Path) -> Path:
    """A CSV file without line breaks in its values, to be cut anywhere between lines."""
    rows = [row | {"old_value": "plain"} for row in EVENTS]
    path.write_text(csv_text(rows))
    return path


def write_gzip(path: Path) -> Path:
    path.write_bytes(gzip.compress(csv_text(EVENTS).encode(), mtime=0))
    return path


LOG = EventLog()
LIVE_ONLY = frozenset({"fingerprint"})
"""Columns that only rows of live tables fill."""
UNUSED = frozenset({"transaction"})
SAMPLES = [
    Sample("log.csv", LOG, lambda path: write(path, EVENTS), 7, count_csv, UNUSED),
    Sample(
        "log.jsonl",
        EventLog(snapshot=SnapshotOptions(block_size=64)),
        lambda path: write(path, EVENTS),
        7,
        count_json,
        UNUSED,
    ),
    Sample("log.parquet", LOG, lambda path: write(path, EVENTS), 7, None, UNUSED),
    Sample("log.csv.gz", LOG, write_gzip, 7, None, UNUSED),
    Sample(
        "lines.csv",
        EventLog(snapshot=SnapshotOptions(line_breaks=False, block_size=64)),
        in_lines,
        7,
        count_csv,
        UNUSED,
    ),
]


COLUMNS = (*HEADERS, "idu", "fname", "lname", "photo")
CHANGES = [
    {name: row.get(name) for name in COLUMNS}
    for row in (
        change(1, "I", [0, 1, 2, 3], idu="1", fname="Ann", lname='a "b",\nc', photo="bbbb"),
        change(2, "U", [1], idu="1", fname="Eve"),
        change(3, "I", [0, 1, 2, 3], idu="2"),
        change(2, "B", idu="1", fname="Ann"),
        change(4, "U", [0, 1], idu="4", fname="Eve"),
        change(5, "U", [0], idu="9"),
        change(6, "L", idu="9"),
        change(4, "B", idu="1", fname="Eve"),
        change(7, "D", [0], idu="2") | {"header__change_seq": "7"},
        change(8, "D", [0], idu="2"),
    )
]
CHANGE_TABLE = ChangeTableOptions(
    source_table="indirect.usr", binary_text="hex", mask_order="msb", header_columns=7, pair_wait=0
)
"""Rows without partner wait for nothing: a first run reads what a replay does."""
NO_USER = frozenset({"perpetrator"})
SMALL_BLOCKS = SnapshotOptions(block_size=64)


def changes_in_lines(path: Path) -> Path:
    path.write_text(csv_text([row | {"lname": "plain"} for row in CHANGES], COLUMNS))
    return path


SAMPLES += [
    Sample(
        f"changes{suffix}",
        ChangeTable(CHANGE_TABLE, SnapshotOptions(block_size=64)),
        lambda path: write_changes(path, CHANGES),
        10,
        count,
        NO_USER,
    )
    for suffix, count in ((".csv", count_csv), (".jsonl", count_json), (".parquet", None))
]
SAMPLES.append(
    Sample(
        "lines__ct.csv",
        ChangeTable(CHANGE_TABLE, SnapshotOptions(line_breaks=False, block_size=64)),
        changes_in_lines,
        10,
        count_csv,
        NO_USER,
    )
)


def count_lengths(data: bytes) -> int:
    """Records that begin in the data, by their length words."""
    count = at = 0
    while at < len(data):
        at += int.from_bytes(data[at : at + 4], "big") if at + 4 <= len(data) else len(data)
        count += 1
    return count


def writer_of(*parts: bytes) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.write_bytes(b"".join(parts))
        return path

    return make


def differences(options: LinkexpressOptions) -> list[bytes]:
    """Some records of a table, one of them with a code that may not stand there."""
    records = [jack(1), jack(2, 2), jack(2, 3), jack(3, 0), (0, 1, [4, NULL, NULL, NULL])]
    return [extract_record(options, *each) for each in records]


NO_TIME = frozenset({"event_time", "perpetrator", "old"})
"""What an extraction file does not say, and one image of a row only."""
SAMPLES += [
    Sample("open.dat", Linkexpress(OPEN), writer_of(*differences(OPEN)), 5, None, NO_TIME | UNUSED),
    Sample(
        "little.dat",
        Linkexpress(little(OPEN)),
        writer_of(*differences(little(OPEN))),
        5,
        count_lengths,
        NO_TIME | UNUSED,
    ),
    Sample(
        "jnl.dat",
        Linkexpress(JNL),
        writer_of(*differences(JNL)),
        5,
        count_lengths,
        NO_TIME | UNUSED,
    ),
    Sample(
        "group.dat",
        Linkexpress(GROUP),
        writer_of(
            *differences(GROUP), mark(GROUP), *differences(GROUP), mark(GROUP), *differences(GROUP)
        ),
        17,
        count_lengths,
        NO_TIME,
    ),
]

IMAGE = {"idu": 1, "fname": "Ann", "lname": None, "photo": None}
MESSAGES = [
    ("INSERT", 1, IMAGE, None, {}),
    ("UPDATE", 2, IMAGE | {"fname": "Eve"}, IMAGE, {"changeMask": "02"}),
    ("UPDATE", 3, IMAGE | {"idu": 2}, IMAGE, {"changeMask": "01"}),
    ("UPDATE", 4, IMAGE, None, {"changeMask": "80"}),
    ("REFRESH", None, IMAGE, None, {}),
    ("DELETE", 5, None, IMAGE | {"idu": 2}, {}),
]


def messages(path: Path) -> Path:
    lines = []
    for operation, number, data, before, masks in MESSAGES:
        headers = {
            "operation": operation,
            "changeSequence": None if number is None else change_seq(number),
            "timestamp": "2023-03-21T21:34:19.511",
            "transactionId": "0A",
            "schema": "indirect",
            "table": "usr",
            **masks,
        }
        lines.append(json.dumps({"data": data, "beforeData": before, "headers": headers}) + "\n")
    path.write_text("".join(lines))
    return path


SAMPLES.append(
    Sample(
        "messages.jsonl",
        ChangeTable(ChangeTableOptions(layout="messages", mask_order="msb"), SMALL_BLOCKS),
        messages,
        6,
        count_json,
        NO_USER,
    )
)

PEOPLE = [
    {"idu": idu, "fname": fname, "lname": lname, "photo": None}
    for idu, fname, lname in (
        ("1", "Ann", 'a "b"'),
        ("2", "Eve", None),
        ("2", "Eve", "twice, and different"),
        ("3", "Cy", ""),
        ("3", "Cy", ""),
        (None, "nobody", None),
    )
]
COMPARED = TriggerlessOptions(tables=("usr",), key={"usr": ("idu",)})
NO_HISTORY = frozenset({"event_time", "perpetrator", "transaction", "old"})


def people(path: Path) -> Path:
    return write_changes(path, [dict(row) for row in PEOPLE])


SAMPLES += [
    Sample(
        f"people{suffix}",
        Triggerless(COMPARED, SnapshotOptions(block_size=64)),
        people,
        6,
        count,
        NO_HISTORY,
    )
    for suffix, count in ((".csv", count_csv), (".jsonl", count_json), (".parquet", None))
]


def queue_rows() -> list[dict[str, object]]:
    """Transactions that interleave, one with an operation of three parts, one with a wrong image."""
    queue = Queue()
    old, new = (image(BIG, [4, "x", name]) for name in ("old", "new"))
    return [
        queue.row(2, queue_image(1), TRANSACT_ID=1),
        queue.row(3, queue_image(1), queue_image(2), TRANSACT_ID=2),
        *queue.rows(3, old, new, TRANSACT_ID=1, TABNUM_SRC=8),
        queue.row(2, b"short", TRANSACT_ID=3),
        queue.row(4, TRANSACT_ID=1),
        queue.row(1, queue_image(5), TRANSACT_ID=3),
        queue.row(4, TRANSACT_ID=2),
        queue.row(4, TRANSACT_ID=3),
        queue.row(2, queue_image(6), TRANSACT_ID=4),
    ]


def queue_in_binary(path: Path) -> Path:
    path.write_bytes(binary(queue_rows()))
    return path


def queue_in_text(path: Path) -> Path:
    path.write_text(delimited_text(queue_rows()))
    return path


SAMPLES += [
    Sample(
        "queue.dat",
        DispatchQueue(QUEUE),
        queue_in_binary,
        11,
        lambda data: -(-len(data) // 3596),
        NO_USER,
    ),
    Sample("queue.csv", DispatchQueue(QUEUE), queue_in_text, 11, count_csv, NO_USER),
]


def test_every_format_has_a_sample() -> None:
    assert {sample.source.format for sample in SAMPLES} == set(FORMATS)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
class TestSource:
    """One promise each."""

    def test_splits_are_stable_and_go_through_json(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        made = sample.source.splits([path], 3)
        assert made == sample.source.splits([path], 3)
        assert [Split(**json.loads(json.dumps(asdict(split)))) for split in made] == made

    def test_no_record_is_lost_or_doubled(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        records, framed = read(sample.source, path, 1)
        assert framed == sample.records
        assert sum(int(str(record["records"])) for record in records) == sample.records

    def test_the_number_of_splits_changes_nothing(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        expected = content(read(sample.source, path, 1)[0])
        assert expected
        for wanted in (2, 3, 100):
            assert content(read(sample.source, path, wanted)[0]) == expected

    def test_reading_twice_gives_the_same_bytes(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        with prepare_here(sample.source, [path], 2, CONTEXT.catalogue) as prepared:
            for number in range(len(prepared.splits)):
                first, second = (list(prepared.read(number, CONTEXT)) for _ in range(2))
                assert pa.Table.from_batches(first).equals(pa.Table.from_batches(second))
                assert all(batch.schema.equals(RECORD_SCHEMA) for batch in first)

    def test_every_column_is_filled_somewhere(self, sample: Sample, tmp_path: Path) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        empty = {name for name in RECORD_SCHEMA.names if all(r[name] is None for r in records)}
        assert empty == sample.unused | LIVE_ONLY

    def test_rejects_carry_reason_detail_and_raw_record(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        rejects = [record for record in records if record["outcome"] == Outcome.REJECTED]
        assert rejects
        for record in rejects:
            assert record["reason"]
            assert record["detail"]
            json.loads(str(record["raw"]))

    def test_lanes_are_within_their_number_and_one_for_each_object(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        lanes: dict[object, set[object]] = {}
        for record in records:
            assert 0 <= int(str(record["lane"])) < CONTEXT.lanes
            if record["key"] is not None:
                lanes.setdefault((record["table"], record["key"]), set()).add(record["lane"])
        assert all(len(found) == 1 for found in lanes.values())

    def test_positions_have_a_text_that_is_read_back(self, sample: Sample, tmp_path: Path) -> None:
        records, _ = read(sample.source, sample.make(tmp_path / sample.name), 1)
        for record in records:
            position = Position(
                str(record["part"]), *(int(str(record[n])) for n in ("high", "low", "ordinal"))
            )
            told = sample.source.parse_position(sample.source.position_text(position))
            assert told == position._replace(ordinal=0)  # users name records

    def test_each_record_can_be_read_again(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        with prepare_here(sample.source, [path], 2, CONTEXT.catalogue) as prepared:
            for number, split in enumerate(prepared.splits):
                assert isinstance(split, Split)
                for batch in prepared.read(number, CONTEXT):
                    for record in batch.to_pylist():
                        if record["outcome"] == TALLY:
                            continue
                        raw = sample.source.raw(split, record["row"])
                        assert raw is not None
                        assert record["raw"] in (None, raw)

    def test_a_file_cut_anywhere_is_read_or_refused_in_words(
        self, sample: Sample, tmp_path: Path
    ) -> None:
        whole = sample.make(tmp_path / sample.name).read_bytes()
        path = tmp_path / f"cut-{sample.name}"
        were_read = 0
        sizes = sorted({*range(0, len(whole), max(1, len(whole) // 150)), len(whole)})
        for size in sizes:
            path.write_bytes(whole[:size])
            framed = count_or_refusal(sample.source, path)
            if framed is None:
                continue
            were_read += 1
            # a header that is cut before its first name is a record, as far as anyone can tell
            if sample.count is not None and (framed, sample.count(whole[:size])) != (1, 0):
                assert framed == sample.count(whole[:size])
        assert were_read >= (1 if sample.count is None else len(sizes) // 2)

    def test_any_byte_may_be_wrong(self, sample: Sample, tmp_path: Path) -> None:
        whole = sample.make(tmp_path / sample.name).read_bytes()
        path = tmp_path / f"wrong-{sample.name}"
        for at in range(0, len(whole), max(1, len(whole) // 40)):  # ./run fuzz goes on
            for wrong in (b"\0", b"\xff", b'"', b"\n"):
                path.write_bytes(whole[:at] + wrong + whole[at + 1 :])
                count_or_refusal(sample.source, path)

    def test_a_first_run_reads_what_a_replay_reads(self, sample: Sample, tmp_path: Path) -> None:
        path = sample.make(tmp_path / sample.name)
        for wanted in (1, 3):
            kept = CarryOver(None, tmp_path / f"kept{wanted}")
            first = read(sample.source, path, wanted, kept)
            assert first == read(sample.source, path, wanted)


def count_or_refusal(source: Source, path: Path) -> int | None:
    """Number of records, all of which have their outcome; ``None`` where the file is refused in words."""
    refusal = None
    try:
        records, framed = read(source, path, 2)
    except PublisherError as error:
        refusal = error.message
    if refusal is not None:
        assert str(path) in refusal
        return None
    assert sum(int(str(record["records"])) for record in records) == framed
    return framed


def read(
    source: Source, path: Path, wanted: int, carry_over: CarryOver | None = None
) -> tuple[list[Row], int]:
    """All records of a file, and the sum of the tallies: one of each split, at its end."""
    records: list[Row] = []
    framed = 0
    with prepare_here(source, [path], wanted, CONTEXT.catalogue, carry_over=carry_over) as prepared:
        for number in range(len(prepared.splits)):
            rows = [row for batch in prepared.read(number, CONTEXT) for row in batch.to_pylist()]
            tallies = [row for row in rows if row["outcome"] == TALLY]
            assert tallies == rows[-1:]
            assert tallies[0]["split"] == number
            for row in rows[:-1]:
                if row["split"] != number:
                    assert_raw_is_found(source, prepared.splits, row)
            framed += tallies[0]["row"]
            records += rows[:-1]
    return records, framed


def assert_raw_is_found(source: Source, splits: Sequence[Split | TableSplit], row: Row) -> None:
    """A record that the task of another split accounts for carries the number of the split that framed
    it: there the reject, the fate of the file and the trace look for its row."""
    assert row["outcome"] == Outcome.REJECTED.value
    split, number = int(str(row["split"])), int(str(row["row"]))
    framing = splits[split]
    assert isinstance(framing, Split)
    assert source.raw(framing, number) == row["raw"]


def content(records: list[Row]) -> list[str]:
    """The records without the number of their split, in the order of their rows."""
    ordered = sorted(records, key=lambda record: int(str(record["row"])))
    return [json.dumps(record | {"split": 0}) for record in ordered]
