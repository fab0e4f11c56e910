"""All forms of input there are."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz import binaries, samples, texts
from tests.fuzz.form import Form

FORMS: Sequence[Form] = (*texts.FORMS, *binaries.FORMS, *samples.FORMS)
