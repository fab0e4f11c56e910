"""Surveys published documents once, before they are compared: size, tables, and keys that change.

Records of topics are copied to files meanwhile, so that they are fetched only once, even if unsettled objects
are compared again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from publisher.model.catalogue import Catalogue
from publisher.verify.associations import suffixes_of
from publisher.verify.documents import CopiedPart, DocumentPart, TopicPart, copy_part, names_of
from publisher.verify.event_ids import event_hashes

_RENAMES = (b"<modify-association", b'"old_association"')


@dataclass(frozen=True, slots=True)
class PartToSurvey:
    """A part of the documents, and the folder for its copy."""

    part: DocumentPart
    folder: Path


@dataclass(frozen=True, slots=True)
class DocumentSurvey:
    """Facts about the documents of a part."""

    part: DocumentPart
    """The part itself, or its copy."""
    documents: int
    bytes: int
    suffixes: frozenset[str]
    """The endings of associations, which name tables."""
    renames: tuple[tuple[str, str], ...]
    event_hashes: Path | None = None
    """File with the hashes of event ids; files of runs have none."""


def survey_documents(item: PartToSurvey, _catalogue: Catalogue) -> DocumentSurvey:
    """Surveys a part: its size, its tables and the keys that its documents change."""
    part = item.part
    if isinstance(part, TopicPart):
        part = copy_part(part, item.folder)
    hashes = [np.zeros(0, np.uint64)]
    count, size = 0, 0
    suffixes: set[str] = set()
    renames: list[tuple[str, str]] = []
    for rows in part.read():
        data = rows.column("data")
        count += rows.num_rows
        size += pc.sum(pc.binary_length(data), min_count=0).as_py()
        suffixes.update(suffixes_of(rows.column("association")).dictionary.to_pylist())
        renames += _find_renames(data)
        if isinstance(part, CopiedPart):
            hashes.append(event_hashes(rows))
    file = None
    if isinstance(part, CopiedPart):
        file = part.path.with_suffix(".npy")
        np.save(file, np.concatenate(hashes))
    return DocumentSurvey(part, count, size, frozenset(suffixes - {None}), tuple(renames), file)


def _find_renames(data: pa.Array) -> Iterator[tuple[str, str]]:
    octets = b"".join(filter(None, data.buffers()[2:]))  # much faster to search than each document
    if not any(text in octets for text in _RENAMES):
        return
    is_rename = pc.or_(*(pc.match_substring(data, text) for text in _RENAMES))
    for document in data.filter(is_rename).to_pylist():
        old, *others = [*names_of(document)] or [""]
        yield from ((old, new) for new in others)


def connect_keys(renames: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Returns the first association of each group that changes of keys connect."""
    first: dict[str, str] = {}

    def find(name: str) -> str:
        while (parent := first.setdefault(name, name)) != name:
            first[name] = first[parent]
            name = parent
        return name

    for old, new in renames:
        low, high = sorted((find(old), find(new)))
        first[high] = low
    return {name: find(name) for name in [*first]}
