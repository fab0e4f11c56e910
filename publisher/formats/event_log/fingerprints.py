"""Fingerprints of log rows, which show that a row is still the one that a run has read.

A fingerprint covers record id, event time and table key as text of the database.  The ledger stores it, and
acknowledgement compares it before it changes the status of a row: a record id alone proves nothing if the log
was emptied in the meantime, or if another database answers.  It protects against mistakes, not against
somebody who looks for rows with the same fingerprint.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from publisher.formats.columns.byte_areas import numbers_at

FINGERPRINTED = ("record_id", "event_time", "table_key")
"""The documented names of the columns, in this order."""

_SEPARATOR = b"\x1f"
_NULL = b"\x00"
_WORD = np.dtype("<u8")
_LONGEST = 256
"""Maximum bytes of a row that is hashed by the column: each eight bytes cost one step for all rows."""
_ODD = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
"""Multipliers of splitmix64."""
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)

_Words = npt.NDArray[np.uint64]


def fingerprints_of_rows(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Computes the fingerprint of each row of a batch with the documented columns."""
    return fingerprints_of([batch.column(name) for name in FINGERPRINTED])


def fingerprints_of(columns: list[pa.Array]) -> npt.NDArray[np.int64]:
    """Computes the fingerprint of each row from its columns, in the order of ``FINGERPRINTED``."""
    texts = [column.cast(pa.string()).cast(pa.binary()) for column in columns]
    joined = pc.binary_join_element_wise(
        *texts, _SEPARATOR, null_handling="replace", null_replacement=_NULL
    )
    _, ends, data = joined.buffers()
    places = np.frombuffer(ends, np.int32)[joined.offset :][: len(joined) + 1].astype(np.int64)
    lengths = np.diff(places)
    octets = np.frombuffer(b"".join([data or b"", bytes(_WORD.itemsize)]), np.uint8)
    hashes = _hash_words(octets, places[:-1], np.minimum(lengths, _LONGEST)) ^ lengths.view(
        np.uint64
    )
    fingerprints = _mix(hashes).view(np.int64)
    for row in np.flatnonzero(lengths > _LONGEST).tolist():
        digest = hashlib.blake2b(joined[row].as_py(), digest_size=_WORD.itemsize).digest()
        fingerprints[row] = int.from_bytes(digest, "little", signed=True)
    return fingerprints


def _hash_words(
    octets: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> _Words:
    """Hashes the bytes of each row, eight at a time; eight more bytes follow the last row."""
    size = _WORD.itemsize
    hashes = np.zeros(len(starts), np.uint64)
    whole = int(lengths.min(initial=_LONGEST)) // size * size
    for skipped in range(0, whole, size):
        hashes = _mix(hashes ^ numbers_at(octets, starts + skipped, _WORD))
    for skipped in range(whole, int(lengths.max(initial=0)), size):
        rows = np.flatnonzero(lengths > skipped)
        surplus = np.maximum(size - (lengths[rows] - skipped), 0).astype(np.uint64)
        words = numbers_at(octets, starts[rows] + skipped, _WORD)
        words &= _ALL_BITS >> surplus * np.uint64(8)
        hashes[rows] = _mix(hashes[rows] ^ words)
    return hashes


def _mix(numbers: _Words) -> _Words:
    """Mixes the bits of numbers like splitmix64; different numbers remain different."""
    mixed: _Words = numbers + _ODD[0]
    mixed ^= mixed >> np.uint64(30)
    mixed *= _ODD[1]
    mixed ^= mixed >> np.uint64(27)
    mixed *= _ODD[2]
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), np.uint64)
