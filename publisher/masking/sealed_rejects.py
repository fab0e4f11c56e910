"""Rejected records of masked runs: detail and raw record are sealed together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from publisher.masking.masker import Masker

HIDDEN_DETAIL = "masking hides the details"
SEALED_DETAIL = (
    "masking hides the details, which may quote values: fix the record in the source, or export it with "
    "rejects --export FILE --unmasked, which needs the key"
)
_SEALED = "sealed"
_PLACE = b"reject"


class OpenReject(NamedTuple):
    """Detail and raw record of a reject as they were."""

    detail: str | None
    raw: str | None


def seal_reject(
    detail: str | None, raw: str | None, masker: Masker, facts: Mapping[str, object]
) -> str:
    """Seals a reject; returns its raw record, which is JSON like any other.

    ``facts`` about the record remain readable."""
    text = json.dumps([detail, raw], ensure_ascii=False)
    return json.dumps({_SEALED: masker.seal_text(text, _PLACE), **facts})


def is_sealed(raw: str | None) -> bool:
    """Returns whether a raw record is sealed."""
    return raw is not None and raw.startswith(f'{{"{_SEALED}": "')


def open_reject(raw: str, masker: Masker) -> OpenReject:
    """Opens a sealed raw record.  Raises ``FatalError`` if another key has sealed it."""
    return OpenReject(*json.loads(masker.unseal_text(json.loads(raw)[_SEALED], _PLACE)))
