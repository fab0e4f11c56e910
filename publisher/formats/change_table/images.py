"""Images of a change: supplied values, differences, and a whole row made of both images."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.change_table.change_seq import Flags
from publisher.formats.change_table.masks import MaskProblem, MaskReading
from publisher.formats.columns.object_names import RecordFault
from publisher.formats.columns.row_images import Matrix, differ, non_null
from publisher.model.change import Reason

_SHOWN = 5


def mark_values(image: pa.RecordBatch, names: tuple[str, ...]) -> Matrix:
    """Marks the values of some columns that an image supplies, which are those that are not NULL."""
    return non_null([image.column(name) for name in names], image.num_rows)


def differences(after: pa.RecordBatch, before: pa.RecordBatch, names: tuple[str, ...]) -> Matrix:
    """Marks the columns with different values in two images."""
    flags = np.zeros((after.num_rows, len(names)), bool)
    for place, name in enumerate(names):
        flags[:, place] = differ(after.column(name), before.column(name))
    return flags


def read_masks(
    column: pa.Array, reading: MaskReading, width: int
) -> tuple[Matrix, dict[int, RecordFault]]:
    """Reads the masks of a header column: the columns that each sets, and faults by row."""
    encoded = pc.dictionary_encode(pc.utf8_trim_whitespace(column).fill_null(""))
    codes = encoded.indices.to_numpy()
    size = (width + 7) // 8
    octets = bytearray()
    faults: dict[int, RecordFault] = {}
    for code, mask in enumerate(encoded.dictionary.to_pylist()):
        bits = 0
        try:
            bits = reading.columns_of(mask, width)
        except MaskProblem as problem:
            fault = RecordFault(Reason.CHANGE_MASK, str(problem))
            faults |= dict.fromkeys(np.flatnonzero(codes == code).tolist(), fault)
        octets += bits.to_bytes(size, "little")
    table = np.frombuffer(bytes(octets), np.uint8).reshape(-1, size)
    unpacked = np.unpackbits(table, axis=1, count=width, bitorder="little").astype(bool)
    return unpacked[codes], faults


def fill_gaps(
    after: pa.RecordBatch, before: pa.RecordBatch, names: tuple[str, ...], gaps: Matrix
) -> pa.RecordBatch:
    """Replaces the NULLs of the image ``after`` that ``gaps`` marks by the values of ``before``."""
    columns = dict(zip(after.schema.names, after.columns, strict=True))
    for place, name in enumerate(names):
        ours = columns[name]
        fills = pc.and_(pa.array(gaps[:, place]), ours.is_null())
        columns[name] = pc.if_else(fills, before.column(name), ours)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=after.schema.names)


def unmarked_fault(names: tuple[str, ...], wrong: Flags) -> RecordFault:
    """The fault of an UPDATE that differs from its before image in a column outside its mask."""
    return RecordFault(
        Reason.CHANGE_MASK,
        f"{_list_names(names, wrong)} differs from the before image, but its bit in change_mask is not"
        ' set; check mask_order and header_columns, or set images = "sparse" if images leave out columns',
    )


def _list_names(names: tuple[str, ...], which: Flags) -> str:
    listed_names = [names[place] for place in np.flatnonzero(which)]
    return ", ".join(listed_names[:_SHOWN]) + (" ..." if len(listed_names) > _SHOWN else "")
