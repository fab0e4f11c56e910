"""Corrected raw records as files that a source reads like any others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from publisher.errors import UsageError
from publisher.formats.columns.record_batches import as_json
from publisher.ledger.durable import create_private
from publisher.planning.torn_transactions import TransactionKey

RAW_BYTES = 1 << 20
"""Maximum bytes of a binary record in its raw form."""
_NAMELESS = "retry"
"""Name of the file of records that come from no file."""


@dataclass(frozen=True, slots=True)
class CorrectedRecord:
    """A corrected raw record.  ``where`` is its place in the file of the user, for messages."""

    id: str
    where: str
    file: str | None
    """The file that had the rejected record; ``None`` for a table."""
    raw: Any
    transaction: TransactionKey | None = None
    """The transaction that was rejected as a whole; ``None`` if the record belongs to none."""
    position: str = ""
    """Its position, if that does not depend on a file."""


class RetryFiles(NamedTuple):
    """Files of corrected records, and for each record its file and its number in the file.

    The file is empty if the source numbers the records of all of its files together."""

    paths: tuple[Path, ...]
    places: tuple[tuple[Path, int], ...]
    options: Any = None
    """Options that read the files, if not those of the source."""


def write_json_lines(
    records: Sequence[CorrectedRecord],
    folder: Path,
    written: Mapping[str, str],
    position: str | None = None,
) -> RetryFiles:
    """Writes records as JSON lines: one file for each file that had them, with the same name.

    ``written`` has the names of columns that differ in files, ``position`` is the column of the position.

    Raises:
        UsageError: A record is not an object with columns, or has the position of another one.
    """
    places: list[tuple[Path, int]] = []
    lines: dict[Path, list[str]] = {}
    paths = dict(_paths(records, folder, ".jsonl"))
    for record in records:
        if not isinstance(record.raw, dict):
            raise UsageError(
                f"{record.where}: raw is not an object: write the record as columns and values, as in "
                '{"COLUMN": "VALUE", ...}'
            )
        if record.position and (number := record.raw.get(position or "")) is not None:
            _refuse_other_position(record, position or "", str(number).strip())
        path = paths[record.file]
        columns = {written.get(name, name): value for name, value in record.raw.items()}
        of_file = lines.setdefault(path, [])
        of_file.append(as_json(columns))
        places.append((path, len(of_file)))
    for path, of_file in lines.items():
        write_private(path, "".join(f"{line}\n" for line in of_file).encode())
    return RetryFiles(tuple(lines), tuple(places))


def _refuse_other_position(record: CorrectedRecord, column: str, number: str) -> None:
    """Refuses a record that would be published under the event id of another one."""
    if number.lstrip("0") != record.position.lstrip("0"):
        raise UsageError(
            f"{record.where}: {column} {record.position} is changed to {number}, the position of another "
            f"record: leave {column} as it is, and correct the other columns"
        )


def write_octets(records: Sequence[CorrectedRecord], folder: Path) -> RetryFiles:
    """Writes binary records, whose raw form has the bytes as ``hex``, one after the other.

    The number of a record is its offset.  File names are new, because positions consist of name and offset.

    Raises:
        UsageError: The bytes of a record are missing, truncated, or not hex.
    """
    places: list[tuple[Path, int]] = []
    contents: dict[Path, bytearray] = {}
    paths = dict(_paths(records, folder, f".{folder.parent.name}.dat"))
    for record in records:
        content = contents.setdefault(paths[record.file], bytearray())
        places.append((paths[record.file], len(content)))
        content += octets_of(record)
    for path, content in contents.items():
        write_private(path, content)
    return RetryFiles(tuple(contents), tuple(places))


def write_private(path: Path, content: bytes | bytearray) -> None:
    """Writes a file of corrected records in a new folder."""
    path.parent.mkdir(parents=True, mode=0o700)
    with create_private(path) as file:
        file.write(content)


def octets_of(record: CorrectedRecord) -> bytes:
    """Returns the bytes of a binary record.  Raises ``UsageError`` if they are missing or not hex."""
    try:
        octets = bytes.fromhex(record.raw["hex"])
        length = record.raw.get("length", 0)
    except (TypeError, KeyError, AttributeError, ValueError):
        raise UsageError(
            f'{record.where}: raw has no bytes: write them as hex, as in {{"hex": "01AF"}}'
        ) from None
    if not octets or len(octets) == RAW_BYTES < length:
        raise UsageError(
            f"{record.where}: raw has {len(octets):,} of {length:,} bytes: write all of them as hex"
        )
    return octets


def _paths(
    records: Sequence[CorrectedRecord], folder: Path, ending: str
) -> Iterator[tuple[str | None, Path]]:
    """Names a file for each file that had records: folder and name without endings may name a table."""
    for number, file in enumerate(dict.fromkeys(record.file for record in records)):
        place = folder / str(number)
        if file is None:
            yield file, place / f"{_NAMELESS}{ending}"
        else:
            old = PurePath(file)
            yield (
                file,
                place / old.parent.name / f"{old.name.partition('.')[0] or _NAMELESS}{ending}",
            )
