"""Processor time of ranks alone: gathering record ids when splits are read, ranking them in lanes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from publisher.formats.columns.record_batches import Place, batch
from publisher.formats.event_ranks import LaneRanks, with_ids
from publisher.model.sorted_ids import Ids

SPLITS = LANES = 8
BATCH = 1 << 15
GAP = 7


def spreads(events: int) -> Mapping[str, Ids]:
    """Record ids in the order in which splits have them."""
    ids = np.arange(1, events + 1, dtype=np.int64)
    return {
        "in order": ids,
        "with gaps": ids * GAP,
        "in overlapping splits": np.concatenate([ids[n::SPLITS] for n in range(SPLITS)]) * GAP,
        "in no order": np.random.default_rng(0).permutation(ids) * GAP,
    }


def rank_seconds(ids: Ids, folder: Path) -> float:
    """Seconds of all tasks together.  Fails unless every rank is right."""
    splits = [_batches(part) for part in np.array_split(ids, SPLITS)]
    ranked = np.sort(ids)
    lanes = [_batches(ranked[lane::LANES]) for lane in range(LANES)]
    start = time.process_time()
    notes = [
        list(with_ids(batches, Place(0, number, "log", LANES), folder))[-1]
        for number, batches in enumerate(splits)
    ]
    found: list[list[pa.RecordBatch]] = []
    for lane, batches in enumerate(lanes):
        ranks = LaneRanks(folder, range(SPLITS))
        for note in notes:
            ranks.add_notes(note.slice(lane, 1))
        found.append([ranks.rank(changes) for changes in batches])
    seconds = time.process_time() - start
    for lane, batches in enumerate(found):
        places = np.concatenate([batch.column("rank").to_numpy() for batch in batches])
        if not np.array_equal(places, np.arange(lane + 1, len(ids) + 1, LANES)):
            raise RuntimeError(f"lane {lane}: ranks are not places")
    return seconds


def _batches(ids: Ids) -> list[pa.RecordBatch]:
    parts = [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]
    return [batch(len(part), part="", rank=part, high=part) for part in parts]
