"""Fingerprints of log rows, which show that a row is still the one that a run has read.

A fingerprint covers record id, event time and table key as text of the database.  The journal stores it, and
acknowledgement compares it before it changes the status of a row: a record id alone proves nothing if the log
was emptied in the meantime, or if another database answers.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

FINGERPRINTED = ("record_id", "event_time", "table_key")
"""The documented names of the columns, in this order."""

_SEPARATOR = b"\x1f"
_NULL = b"\x00"


def fingerprints_of(columns: list[pa.Array]) -> npt.NDArray[np.int64]:
    """Computes the fingerprint of each row from its columns, in the order of ``FINGERPRINTED``."""
    texts = [column.cast(pa.string()).cast(pa.binary()) for column in columns]
    joined = pc.binary_join_element_wise(
        *texts, _SEPARATOR, null_handling="replace", null_replacement=_NULL
    )
    digests = b"".join([hashlib.blake2b(row, digest_size=8).digest() for row in joined.to_pylist()])
    return np.frombuffer(digests, "<i8").astype(np.int64)
