"""Triggers of the user's tables in real databases: what they log is what happened."""

from __future__ import annotations

import random

import pytest

from publisher.database.triggers import Style
from tests.services.databases import Place
from tests.services.logged_tables import TYPES, Logged, Model

STYLES = list(Style)
LOGGED_TYPES = {
    Style.PER_FIELD: {1, 2, 4},
    Style.PER_ROW: {4, 5, 6},
    Style.QUERY_BACK: {4, 7, 8},
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_model_that_follows_the_log_is_the_table(place: Place, style: Style, seed: int) -> None:
    rng = random.Random(f"{style} {seed}")
    logged = Logged(place, "usr", style, tuple(TYPES))
    model = Model(place.database())
    for _ in range(8):
        for _ in range(rng.randrange(1, 6)):
            logged.work(rng, steps=rng.randrange(1, 7))
        model.follow()
        model.check(logged)
    assert set(model.types) == LOGGED_TYPES[style]
    assert logged.keys
