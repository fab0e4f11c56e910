"""The story as change tables: CSV with ``.dfm``, CSV with column names, JSON lines.

Masks are written with the inverse of the reader's function, most significant byte first as in real files.
An UPDATE and its before image share a change_seq, but other records are between them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from publisher.formats.change_table.change_seq import NUMBER_DIGITS
from publisher.formats.change_table.layout import HEADERS
from publisher.formats.change_table.options import ChangeTableOptions
from publisher.formats.files.recognise import dfm_of
from publisher.model.change import Outcome
from tests.support.change_masks import mask_of
from tests.support.company.acts import COLUMNS, KEYS, Act, RowChange
from tests.support.company.people import Row, log_text
from tests.support.company.story import Counts

HEADER_COLUMNS = HEADERS[:7]
"""All header columns but partition_name, which tasks without partitions do not have."""
OPERATIONS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "B": "BEFOREIMAGE"}
DEFERRED_RECORDS = 40
"""Number of records that are written before their before images."""
FILES = {
    "employee": "employee__ct/20260507.csv",
    "employee_phone": "employee_phone__ct/20260507.jsonl",
    "membership": "membership__ct/20260507.jsonl",
    "usr": "usr__ct/20260507.csv",
    "usr_phone": "usr_phone__ct/20260507.csv",
}
TABLES_WITH_DFM = frozenset({"employee"})
"""Tables whose column names are in a ``.dfm`` file instead of the data file."""

Record = dict[str, str | None]


def write_change_tables(folder: Path, options: ChangeTableOptions, acts: Iterable[Act]) -> Counts:
    """Writes one folder for each table; returns the expected counts of publishing them."""
    records: dict[str, list[tuple[str, Record]]] = {table: [] for table in FILES}
    number = 0
    for place, act in enumerate(acts, 1):
        for change in act.changes:
            number += 1
            common = {
                "change_seq": change_seq(act, number),
                "stream_position": f"1386;{number:08}",
                "transaction_id": f"{place:032X}",
                "timestamp": f"{act.end_time.isoformat(timespec='milliseconds')}Z",
            }
            for letter, record in records_of(change):
                headers = common | {"change_oper": letter, "operation": OPERATIONS[letter]} | record
                records[change.table].append((letter, _with_names(headers, change.table, options)))
    for table, name in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True)
        _write(path, table, list(_defer_before_images(records[table])))
    return {(Outcome.PUBLISHED, None): sum(map(len, records.values()))}


def change_seq(act: Act, number: int) -> str:
    """Returns 16 digits for the time of the commit, and 19 for the number of the change."""
    moment = act.end_time
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 10_000:02}{number:0{NUMBER_DIGITS}d}"


def records_of(change: RowChange) -> Iterator[tuple[str, Record]]:
    """Yields the records of one change: letter and columns, with the mask."""
    keys, names = KEYS[change.table], COLUMNS[change.table]
    if change.before is None:
        assert change.after is not None
        yield "I", _images(change, change.after) | {"change_mask": mask(change, (*keys, *names))}
    elif change.after is None:
        yield "D", _images(change, change.before) | {"change_mask": mask(change, keys)}
    else:
        yield (
            "U",
            _images(change, change.after) | {"change_mask": mask(change, change.changed_columns)},
        )
        yield "B", _images(change, change.before) | {"change_mask": ""}


def mask(change: RowChange, columns: Iterable[str]) -> str:
    """Returns the change_mask of columns, by their places after the header columns."""
    places = (*KEYS[change.table], *COLUMNS[change.table])
    return mask_of(sum(1 << len(HEADER_COLUMNS) + places.index(name) for name in columns), "msb")


def _images(change: RowChange, row: Row) -> Record:
    texts = {name: log_text(value) for name, value in change.image(row).items()}
    return texts | {
        name: value.hex().upper() for name, value in row.items() if isinstance(value, bytes)
    }


def _with_names(record: Record, table: str, options: ChangeTableOptions) -> Record:
    """Returns all columns in the order of the change table, under their names in it."""
    headers = {f"{options.prefix}{name}": record[name] for name in HEADER_COLUMNS}
    return headers | {name: record[name] for name in (*KEYS[table], *COLUMNS[table])}


def _defer_before_images(records: Sequence[tuple[str, Record]]) -> Iterator[Record]:
    """Moves before images after the records to which they belong."""
    before_images: list[Record] = []
    for number, (letter, record) in enumerate(records):
        if letter == "B":
            before_images.append(record)
        else:
            yield record
        if number % DEFERRED_RECORDS == 0:
            yield from before_images
            before_images = []
    yield from before_images


def _write(path: Path, table: str, records: Sequence[Record]) -> None:
    if path.suffix == ".jsonl":
        lines = (json.dumps(record, ensure_ascii=False) for record in records)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return
    names = list(records[0])
    lines = (",".join(map(_field, record.values())) for record in records)
    if table in TABLES_WITH_DFM:
        dfm_of(path).write_text(json.dumps(_description(table, names), indent=1), "utf-8")
    else:
        lines = (line for lines in ([",".join(names)], lines) for line in lines)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)


def _field(value: str | None) -> str:
    """Formats a CSV field; NULL is an unquoted empty field."""
    return "" if value is None else '"' + value.replace('"', '""') + '"'


def _description(table: str, names: Sequence[str]) -> dict[str, object]:
    """Returns the content of the ``.dfm`` file."""
    places = {name: place for place, name in enumerate(KEYS[table], 1)}
    columns = [
        {"ordinal": number, "name": name, "primaryKeyPos": places.get(name, 0)}
        for number, name in enumerate(names, 1)
    ]
    return {
        "dfmVersion": "1.1",
        "fileInfo": {"extension": "csv", "content": "changes"},
        "formatInfo": {"format": "delimited", "options": {"fieldDelimiter": ","}},
        "dataInfo": {"sourceSchema": "indirect", "sourceTable": table, "columns": columns},
    }
