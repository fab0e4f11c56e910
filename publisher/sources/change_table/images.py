"""The images of a change: which values are supplied, which differ, and a whole row made of both."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.change import Reason
from publisher.sources.change_table.change_mask import MaskProblem
from publisher.sources.change_table.change_seq import Flags
from publisher.sources.change_table.mask_calibration import MaskReading, columns_of
from publisher.sources.columns.object_names import Fault

Matrix = npt.NDArray[np.bool_]
"""By row and data column."""

_SHOWN = 5


def supplied(image: pa.RecordBatch, names: tuple[str, ...]) -> Matrix:
    """The values of some columns that are not NULL."""
    flags = np.zeros((image.num_rows, len(names)), bool)
    for place, name in enumerate(names):
        flags[:, place] = image.column(name).is_valid().to_numpy(zero_copy_only=False)
    return flags


def differing(after: pa.RecordBatch, before: pa.RecordBatch, names: tuple[str, ...]) -> Matrix:
    """The columns with different values in two images; NULL differs from every value."""
    flags = np.zeros((after.num_rows, len(names)), bool)
    for place, name in enumerate(names):
        ours, theirs = after.column(name), before.column(name)
        same = pc.fill_null(pc.equal(ours, theirs), False)
        same = pc.or_(same, pc.and_(ours.is_null(), theirs.is_null()))
        flags[:, place] = ~same.to_numpy(zero_copy_only=False)
    return flags


def columns_in(
    column: pa.Array, reading: MaskReading, width: int
) -> tuple[Matrix, dict[int, Fault]]:
    """The columns that the masks of a header column set, and the rows whose mask cannot be read."""
    encoded = pc.dictionary_encode(pc.utf8_trim_whitespace(column).fill_null(""))
    codes = encoded.indices.to_numpy()
    size = (width + 7) // 8
    octets = bytearray()
    faults: dict[int, Fault] = {}
    for code, mask in enumerate(encoded.dictionary.to_pylist()):
        bits = 0
        try:
            bits = columns_of(mask, reading, width)
        except MaskProblem as problem:
            fault = Fault(Reason.CHANGE_MASK, str(problem))
            faults |= dict.fromkeys(np.flatnonzero(codes == code).tolist(), fault)
        octets += bits.to_bytes(size, "little")
    table = np.frombuffer(bytes(octets), np.uint8).reshape(-1, size)
    unpacked = np.unpackbits(table, axis=1, count=width, bitorder="little").astype(bool)
    return unpacked[codes], faults


def completed(
    after: pa.RecordBatch, before: pa.RecordBatch, names: tuple[str, ...], open_: Matrix
) -> pa.RecordBatch:
    """The image ``after`` with the values of ``before`` where it has NULL and ``open_`` is set."""
    columns = dict(zip(after.schema.names, after.columns, strict=True))
    for place, name in enumerate(names):
        ours = columns[name]
        gaps = pc.and_(pa.array(open_[:, place]), ours.is_null())
        columns[name] = pc.if_else(gaps, before.column(name), ours)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=after.schema.names)


def gap_fault(names: tuple[str, ...], unknown: Flags) -> Fault:
    """The fault of a key change whose new row is not known in full."""
    return Fault(
        Reason.KEY_CHANGE,
        f"the key was changed, and neither image supplies {_listed(names, unknown)}, so the new row is"
        ' not known in full; set images = "full" where NULL is a value, or key_change_gaps = "absent"'
        ' or "query-back"',
    )


def unmarked_fault(names: tuple[str, ...], wrong: Flags) -> Fault:
    """The fault of an UPDATE that differs from its before image where its mask has no bit."""
    return Fault(
        Reason.CHANGE_MASK,
        f"{_listed(names, wrong)} differs from the before image and its bit in change_mask is not set;"
        ' check mask_order and header_columns, or set images = "sparse" where images leave out columns',
    )


def _listed(names: tuple[str, ...], which: Flags) -> str:
    hits = [names[place] for place in np.flatnonzero(which)]
    return ", ".join(hits[:_SHOWN]) + (" ..." if len(hits) > _SHOWN else "")
