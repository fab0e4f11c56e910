"""What a table is like: its columns, its key, how its rows are turned into keys and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.errors import FatalError, UsageError
from publisher.model.catalogue import Catalogue, JobCatalogue, Kind, LayeredCatalogue, Table
from publisher.model.change import Reason
from publisher.model.keys import (
    IdentifierCase,
    KeyProblem,
    canonical,
    decimal_text,
    integer_text,
    parse,
)
from publisher.sources.columns.base64_columns import column_texts
from publisher.sources.columns.key_texts import join_key, quote_values
from publisher.sources.columns.object_names import Fault, Names, Target, split_name
from publisher.sources.triggerless.hashing import Hashes, text_hashes
from publisher.sources.triggerless.options import Options

Mask = npt.NDArray[np.bool_]

_PLAIN = {
    Kind.INT: r"^(?:0|-?[1-9][0-9]*)$",
    Kind.DECIMAL: r"^(?:0|-?[1-9][0-9]*(?:\.[0-9]*[1-9])?|-?0\.[0-9]*[1-9])$",
}
_NUMBERS: dict[Kind, Callable[[str], str | None]] = {
    Kind.INT: integer_text,
    Kind.DECIMAL: decimal_text,
}


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A column of the key: its name in documents, its name where it is read, how it is written."""

    name: str
    read: str
    kind: Kind | None
    padded: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as it is compared."""

    source_name: str
    """As the source names it; the first part of positions."""
    schema: str | None
    table: str
    read: tuple[str, ...]
    """All columns where they are read, in their order."""
    key: tuple[KeyPart, ...]
    """By the code points of their names."""
    columns: tuple[str, ...]
    """Names in documents of the columns outside the key, in the table's order."""
    others: tuple[str, ...]
    """The same where they are read."""
    octets: frozenset[str]
    """Binary columns where they are read."""
    known: bool
    """Whether anything but the input says what the table is like."""

    @property
    def identity(self) -> tuple[str | None, str, tuple[str, ...]]:
        """What a stored state must agree with."""
        return self.schema, self.table, tuple(part.name for part in self.key)

    def canonical(self, key: str) -> str:
        """The canonical text of a key that a user wrote.  Raises ``UsageError``."""
        kinds = {part.name: str(part.kind) for part in self.key if part.kind is not None}
        names = [part.name for part in self.key]
        try:
            parts = parse(key)
            text = canonical(parts, kinds, IdentifierCase.DATABASE, names)
            if sorted(part.column for part in parse(text)) != names:
                raise KeyProblem(f"the key of {self.source_name} is {', '.join(names)}: write it")
        except KeyProblem as problem:
            raise UsageError(f"{key}: {problem}") from problem
        return text


class Read(NamedTuple):
    """Rows as they are compared, and what is wrong with the others."""

    hashes: Hashes
    """Of the keys."""
    keys: pa.Array
    values: list[pa.Array]
    """Text of each column outside the key."""
    faults: dict[int, Fault]
    """By number in the batch; these rows are not among the others."""

    def with_keys(self, keys: Sequence[str]) -> Read:
        """The rows with these keys; what is wrong with others stays said."""
        chosen = pc.is_in(self.keys, pa.array(keys, pa.string()))
        return Read(
            self.hashes[chosen.to_numpy(zero_copy_only=False)],
            self.keys.filter(chosen),
            [column.filter(chosen) for column in self.values],
            self.faults,
        )


def shape_of(
    table: str, found: Sequence[str], catalogue: Catalogue, options: Options, where: str
) -> Shape:
    """The shape of a table whose columns are ``found``.

    Raises ``FatalError`` where its key is not known, or columns do not fit.
    """
    names = Names(_with_keys(catalogue, options), options.schema, options.identifier_case, 1)
    target = names.target(table)
    if isinstance(target, Fault):
        raise FatalError(f"{where}: {target.detail}; or name it in tables")
    known = target.known
    if known is None or not known.key:
        raise FatalError(
            f"{where}: the primary key of {table} is not known; set key of the source, or of"
            f" [tables.{target.table}]"
        )
    spelled, octets = _columns(table, target, found, names, where)
    key = [_key_part(name, known, spelled, where) for name in known.key]
    inside = {part.read for part in key}
    others = tuple(name for name in found if name not in inside)
    return Shape(
        source_name=table,
        schema=target.schema,
        table=target.table,
        read=tuple(found),
        key=tuple(sorted(key, key=lambda part: part.name)),
        columns=tuple(spelled[name] for name in others),
        others=others,
        octets=octets,
        known=bool(known.columns),
    )


def _columns(
    table: str, target: Target, found: Sequence[str], names: Names, where: str
) -> tuple[dict[str, str], frozenset[str]]:
    """The names in documents of the columns that were found, and which of them are binary."""
    spelled: dict[str, str] = {}
    octets = set()
    for name in found:
        column = names.column(table, target, name)
        if isinstance(column, Fault):
            raise FatalError(f"{where}: {column.detail}; or leave the column out of the export")
        if name in spelled or column.name in spelled.values():
            raise FatalError(f"{where}: column {name} is there twice; export it once")
        spelled[name] = column.name
        if column.octet:
            octets.add(name)
    return spelled, frozenset(octets)


def _with_keys(catalogue: Catalogue, options: Options) -> Catalogue:
    """The catalogue, and behind it the keys of the settings."""
    said = []
    for name, key in options.key.items():
        parts = split_name(name)
        if parts is not None:
            said.append(Table(parts[0], parts[1], key))
    if not said:
        return catalogue
    return LayeredCatalogue(JobCatalogue(said), catalogue)


def _key_part(name: str, known: Table, spelled: dict[str, str], where: str) -> KeyPart:
    own = known.column(name)
    read = [read for read in spelled if read == name or read.casefold() == name.casefold()]
    if len(read) != 1:
        raise FatalError(
            f"{where}: the key column {name} of {known.name} is {'missing' if not read else 'there twice'};"
            " export it, or mend the key"
        )
    kind = known.columns.get(own) if own is not None else None
    return KeyPart(spelled[read[0]], read[0], kind, own in known.padded)


def read_rows(shape: Shape, batch: pa.RecordBatch, binary_text: str | None, where: str) -> Read:
    """The rows of a batch that has the columns of ``shape.read``; ``where`` names the input.

    Raises ``FatalError`` where it is not known how text writes binary values.
    """
    faults: dict[int, Fault] = {}

    def text(name: str) -> pa.Array:
        found, right = _text(shape, name, batch.column(name), binary_text, where)
        for row in np.flatnonzero(~right).tolist():
            faults.setdefault(row, _no_text(shape, name, binary_text))
        return found

    values = [text(name) for name in shape.others]
    parts = [_written(part, text(part.read), faults) for part in shape.key]
    keys = join_key([part.name for part in shape.key], parts)
    if faults:
        good = np.ones(batch.num_rows, bool)
        good[list(faults)] = False
        kept = pa.array(good)
        keys, values = keys.filter(kept), [column.filter(kept) for column in values]
    return Read(text_hashes(keys), keys, values, faults)


def _no_text(shape: Shape, name: str, binary_text: str | None) -> Fault:
    if name in shape.octets and binary_text is not None:
        form = "hex" if binary_text == "hex" else "Base64"
        return Fault(Reason.VALUE, f"the binary column {name} holds no {form}; export it again")
    return Fault(Reason.BROKEN_RECORD, f"{name} is no text; export it as UTF-8 text")


def _written(part: KeyPart, values: pa.Array, faults: dict[int, Fault]) -> pa.Array:
    """The values of a key column as the canonical key has them; null where there is none."""
    for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
        faults.setdefault(
            row, Fault(Reason.TABLE_KEY, f"the key column {part.read} is NULL; mend the key")
        )
    if part.kind in _NUMBERS:
        return _numbers(part, part.kind, values, faults)
    if part.padded:
        values = pc.utf8_rtrim(values, " ")
    return quote_values(values)


def _numbers(part: KeyPart, kind: Kind, values: pa.Array, faults: dict[int, Fault]) -> pa.Array:
    right = pc.fill_null(pc.match_substring_regex(values, _PLAIN[kind]), True)
    if pc.all(right).as_py():
        return values
    written: list[str | None] = []
    for row, value in enumerate(values.to_pylist()):
        number = None if value is None else _NUMBERS[kind](value)
        if number is None and value is not None:
            detail = f"{value[:40]!r} in the key column {part.read} is no number; mend it"
            faults.setdefault(row, Fault(Reason.TABLE_KEY, detail))
        written.append(number)
    return pa.array(written, pa.string())


def _text(
    shape: Shape, name: str, array: pa.Array, binary_text: str | None, where: str
) -> tuple[pa.Array, Mask]:
    """Text of a column, binary values as Base64, and which values have one."""
    return column_texts(
        array,
        f"{where}: column {name} of {shape.source_name}",
        octet=name in shape.octets,
        untyped=not shape.known,
        binary_text=binary_text,
    )
