"""The Arrow schema of documents on their way from planning to the ledger."""

from __future__ import annotations

import pyarrow as pa

DOCUMENT_SCHEMA = pa.schema(
    [
        # rank and position of the first change
        ("rank", pa.int64()),
        ("part", pa.string()),
        ("high", pa.int64()),
        ("low", pa.int64()),
        ("ordinal", pa.int32()),
        ("poll", pa.int64()),
        ("operation", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("association", pa.string()),
        # after a change of the key; else null
        ("new_association", pa.string()),
        ("event_id", pa.string()),
        ("records", pa.string()),
        # one line without its line end
        ("text", pa.large_string()),
        # row numbers of its changes in the lane
        ("rows", pa.list_(pa.int64())),
    ]
)
"""One row for each document: operations of one object in one poll.

A change of the key is alone in its document.  ``operation`` is ``add``, ``modify``, ``delete`` or
``modify-association``, several joined with a blank; ``association`` is the key of a Kafka record; ``records``
has the positions of the changes as users write them."""
