"""Plans the statements that write status letters.

A portion of ids needs few statements: a series of ids without gaps is one range, whose rows get its most
frequent letter; before that, lists of ids give the other rows their letters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Letters = npt.NDArray[np.uint8]


class ListedIds(NamedTuple):
    """A list of ids and their letter."""

    letter: str
    ids: Ids


class IdRange(NamedTuple):
    """The letter of all ids from ``low`` to ``high`` that have none yet."""

    letter: str
    low: int
    high: int


Step = ListedIds | IdRange


def plan_steps(ids: Ids, letters: Letters, min_range: int | None) -> list[Step]:
    """Plans ordered steps that write the letter of each id, and change no other id.

    ``ids`` are sorted and unique.  ``min_range`` is the minimum length of a range; ``None`` allows no
    ranges.  A range has no gaps: a missing id may belong to a row that was inserted later.
    """
    if not len(ids):
        return []
    letters = letters.copy()
    ranges: list[Step] = []
    if min_range is not None:
        breaks = np.flatnonzero(np.diff(ids) != 1) + 1
        starts, ends = np.concatenate(([0], breaks)), np.concatenate((breaks, [len(ids)]))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            if end - start >= min_range:
                letter = int(np.argmax(np.bincount(letters[start:end])))
                ranges.append(IdRange(chr(letter), int(ids[start]), int(ids[end - 1])))
                part = letters[start:end]
                part[part == letter] = 0
    lists: list[Step] = [
        ListedIds(chr(letter), ids[letters == letter])
        for letter in np.flatnonzero(np.bincount(letters, minlength=1)).tolist()
        if letter
    ]
    return lists + ranges
