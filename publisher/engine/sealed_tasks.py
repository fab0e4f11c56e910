"""Seals the pieces of a masked run that tasks hand to other tasks: engines write them to disk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from publisher.masking.masker import Masker, Masking
from publisher.masking.sealed_files import release_contents, use_masking
from publisher.masking.sealed_pickles import reduce_sealed
from publisher.sources.task_runner import ShuffleWork

_DATA = "data"
"""Column of the content of a piece."""
_PIECE = b"piece"


@dataclass(frozen=True, slots=True)
class SealedShuffle:
    """A shuffle whose pieces are sealed, if a run is masked.

    Its tasks open the sealed files of the run, and seal the files that they create."""

    work: ShuffleWork
    masking: Masking | None

    def __reduce__(self) -> tuple[Any, ...]:
        return reduce_sealed(self, self.masking)

    @property
    def parts(self) -> int:
        """See ``ShuffleWork``."""
        return self.work.parts

    @property
    def partitions(self) -> int:
        """See ``ShuffleWork``."""
        return self.work.partitions

    @property
    def schema(self) -> pa.Schema:
        """See ``ShuffleWork``."""
        return self.work.schema

    def read(self, part: int) -> Iterator[pa.RecordBatch]:
        """See ``ShuffleWork``."""
        use_masking(self.masking)
        pieces = self.work.read(part)
        yield from pieces if self.masking is None else _seal(pieces, self.masking.masker)

    def process(self, partition: int, pieces: Iterable[pa.RecordBatch], attempt: str) -> str:
        """See ``ShuffleWork``."""
        use_masking(self.masking)
        if self.masking is not None:
            pieces = _unseal(pieces, self.masking.masker)
        try:
            result = self.work.process(partition, pieces, attempt)
        finally:
            release_contents()
        return result if self.masking is None else self.masking.masker.seal_text(result, _PIECE)

    def open_result(self, result: str) -> str:
        """Opens a result of ``process``."""
        return result if self.masking is None else self.masking.masker.unseal_text(result, _PIECE)


def _seal(pieces: Iterable[pa.RecordBatch], masker: Masker) -> Iterator[pa.RecordBatch]:
    return _each_content(pieces, lambda octets: masker.seal(octets, _PIECE))


def _unseal(pieces: Iterable[pa.RecordBatch], masker: Masker) -> Iterator[pa.RecordBatch]:
    return _each_content(pieces, lambda sealed: masker.unseal(sealed, _PIECE))


def _each_content(
    pieces: Iterable[pa.RecordBatch], convert: Callable[[bytes], bytes]
) -> Iterator[pa.RecordBatch]:
    """Converts the contents of pieces; pieces without content stay as they are."""
    for batch in pieces:
        place = batch.schema.get_field_index(_DATA)
        contents = batch.column(place).to_pylist()
        converted = [None if octets is None else convert(octets) for octets in contents]
        yield batch.set_column(place, batch.schema.field(place), pa.array(converted, pa.binary()))
