"""The story as change tables: CSV with ``.dfm``, CSV with column names, JSON lines.

Masks are written with the inverse of what reads them, most significant byte first as real files have
them; an UPDATE and its before image share a change_seq and do not stand beside each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from publisher.demo.acts import COLUMNS, KEYS, Act, RowChange
from publisher.demo.people import Row, log_text
from publisher.demo.story import Counts
from publisher.model.change import Outcome
from publisher.sources.change_table.change_seq import NUMBER_DIGITS
from publisher.sources.change_table.layout import HEADERS
from publisher.sources.change_table.masks import mask_of
from publisher.sources.change_table.options import ChangeTableOptions
from publisher.sources.files.recognise import dfm_of

KEPT = HEADERS[:7]
"""Header columns: without partition_name, as tasks without partitions keep them."""
OPERATIONS = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "B": "BEFOREIMAGE"}
BEHIND = 40
"""Records after which the before images of the last ones follow."""
FILES = {
    "employee": "employee__ct/20260507.csv",
    "membership": "membership__ct/20260507.jsonl",
    "usr": "usr__ct/20260507.csv",
}
DESCRIBED = frozenset({"employee"})
"""Tables whose file has its column names in a ``.dfm`` instead of in itself."""

Record = dict[str, str | None]


def write_change_tables(folder: Path, options: ChangeTableOptions, acts: Iterable[Act]) -> Counts:
    """Writes one folder for each table; gives what publishing them must count."""
    records: dict[str, list[tuple[str, Record]]] = {table: [] for table in FILES}
    number = 0
    for place, act in enumerate(acts, 1):
        for change in act.changes:
            number += 1
            stamp = {
                "change_seq": change_seq(act, number),
                "stream_position": f"1386;{number:08}",
                "transaction_id": f"{place:032X}",
                "timestamp": f"{act.ended.isoformat(timespec='milliseconds')}Z",
            }
            for letter, record in records_of(change):
                heads = stamp | {"change_oper": letter, "operation": OPERATIONS[letter]} | record
                records[change.table].append((letter, _with_names(heads, change.table, options)))
    for table, name in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True)
        _write(path, table, list(_defer_before_images(records[table])))
    return {(Outcome.PUBLISHED, None): sum(map(len, records.values()))}


def change_seq(act: Act, number: int) -> str:
    """16 digits of the time of the commit, 19 of the number of the change."""
    moment = act.ended
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 10_000:02}{number:0{NUMBER_DIGITS}d}"


def records_of(change: RowChange) -> Iterator[tuple[str, Record]]:
    """The records of one change: letter, mask and columns."""
    keys, names = KEYS[change.table], COLUMNS[change.table]
    if change.before is None:
        assert change.after is not None
        yield "I", _images(change, change.after) | {"change_mask": mask(change, (*keys, *names))}
    elif change.after is None:
        yield "D", _images(change, change.before) | {"change_mask": mask(change, keys)}
    else:
        yield "U", _images(change, change.after) | {"change_mask": mask(change, change.changed)}
        yield "B", _images(change, change.before) | {"change_mask": ""}


def mask(change: RowChange, columns: Iterable[str]) -> str:
    """The change_mask of some columns: their places after the header columns."""
    places = (*KEYS[change.table], *COLUMNS[change.table])
    return mask_of(sum(1 << len(KEPT) + places.index(name) for name in columns), "msb")


def _images(change: RowChange, row: Row) -> Record:
    texts = {name: log_text(value) for name, value in change.image(row).items()}
    return texts | {
        name: value.hex().upper() for name, value in row.items() if isinstance(value, bytes)
    }


def _with_names(record: Record, table: str, options: ChangeTableOptions) -> Record:
    """All columns in the order of the change table."""
    heads = {f"{options.prefix}{name}": record[name] for name in KEPT}
    return heads | {name: record[name] for name in (*KEYS[table], *COLUMNS[table])}


def _defer_before_images(records: Sequence[tuple[str, Record]]) -> Iterator[Record]:
    """Moves before images after the records to which they belong."""
    behind: list[Record] = []
    for place, (letter, record) in enumerate(records):
        if letter == "B":
            behind.append(record)
        else:
            yield record
        if place % BEHIND == 0:
            yield from behind
            behind = []
    yield from behind


def _write(path: Path, table: str, records: Sequence[Record]) -> None:
    if path.suffix == ".jsonl":
        lines = (json.dumps(record, ensure_ascii=False) for record in records)
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return
    names = list(records[0])
    lines = (",".join(map(_field, record.values())) for record in records)
    if table in DESCRIBED:
        dfm_of(path).write_text(json.dumps(_description(table, names), indent=1), "utf-8")
    else:
        lines = (line for lines in ([",".join(names)], lines) for line in lines)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in lines)


def _field(value: str | None) -> str:
    """NULL is an unquoted empty field."""
    return "" if value is None else '"' + value.replace('"', '""') + '"'


def _description(table: str, names: Sequence[str]) -> dict[str, object]:
    """The ``.dfm`` description of the file beside it."""
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
