"""The records of a source as a masked job may show them: with masked keys and values, without raw records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from publisher.engine.masked_lane import MaskedLane, replace_columns, shown_detail
from publisher.engine.task_resources import Rules
from publisher.masking.masker import Masking
from publisher.model.catalogue import Catalogue
from publisher.model.change import EventType, Object
from publisher.model.keys import IdentifierCase
from publisher.planning.filters import Filter, FilterOptions
from publisher.planning.masked_columns import ColumnMasks
from publisher.planning.rendered_columns import ColumnRenderer
from publisher.xds.values import Values

_IMAGES = ("schema", "table", "event_type", "columns", "old", "new")
_Texts = list[str | None] | None


def mask_records(
    batches: Iterable[pa.RecordBatch],
    rules: Rules,
    filters: FilterOptions,
    case: IdentifierCase,
    catalogue: Catalogue,
) -> Iterator[pa.RecordBatch]:
    """Masks batches of ``RECORD_SCHEMA`` of one source; yields them as they are without masking."""
    if rules.masking is None:
        yield from batches
        return
    filter_ = Filter(filters, catalogue=catalogue)
    masked = _MaskedRecords(rules.masking, rules, filter_, case, catalogue)
    yield from map(masked.mask, batches)


class _MaskedRecords:
    """Masks the records of one source."""

    def __init__(
        self,
        masking: Masking,
        rules: Rules,
        filter_: Filter,
        case: IdentifierCase,
        catalogue: Catalogue,
    ) -> None:
        masks = ColumnMasks(masking.masker, filter_, catalogue)
        self._lane = MaskedLane(masking.masker, masks)
        renderer = ColumnRenderer(case, Values(rules.values), filter_, catalogue, masks)
        self._mask_of = cache(renderer.text_mask)

    def mask(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Masks a batch of ``RECORD_SCHEMA``."""
        images = [self._images(*row) for row in _rows(batch, _IMAGES)]
        columns = {
            "old": [old for old, _ in images],
            "new": [new for _, new in images],
            "detail": map(shown_detail, batch.column("detail").to_pylist()),
            "raw": [None] * batch.num_rows,
        }
        return self._lane.arrivals(replace_columns(batch, columns))

    def _images(
        self,
        schema: str | None,
        table: str | None,
        event_type: int | None,
        columns: list[str] | None,
        *images: _Texts,
    ) -> tuple[_Texts, ...]:
        if columns is None or event_type == EventType.KEY_CHANGE:  # masked with the keys
            return images
        obj = Object(schema, table or "", "")
        masks = [self._mask_of(obj, name) for name in columns]
        return tuple(
            image
            and [
                text if text is None or mask is None else mask(text)
                for mask, text in zip(masks, image, strict=True)
            ]
            for image in images
        )


def _rows(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)
