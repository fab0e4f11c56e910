"""The answers of the database to a masked run: its journal has them sealed, to plan the run again."""

from __future__ import annotations

import json
from typing import NamedTuple

from publisher.journal.lookups import LookupAnswer
from publisher.masking.masker import Masker, Masking
from publisher.model.change import Object, Reason
from publisher.planning.query_back import Answer, RefusedLookup

_JSON = json.JSONEncoder(ensure_ascii=False).encode
_CATALOGUE = b"catalogue"


class OpenAnswer(NamedTuple):
    """The answer to a look-up as it was: its text in the journal, and why the database refused."""

    text: str | None
    reason: Reason | None = None


def answer_text(answer: Answer) -> tuple[LookupAnswer, str | None]:
    """Returns the kind of an answer and its text in the journal."""
    if answer is None:
        return LookupAnswer.GONE, None
    if isinstance(answer, RefusedLookup):
        return LookupAnswer.REFUSED, answer.detail
    return LookupAnswer.ROW, _JSON(dict(zip(*answer, strict=True)))


def seal_answer(answer: Answer, obj: Object, poll: int, masker: Masker) -> bytes:
    """Seals the answer to the look-up of a masked object for a poll."""
    kind, text = answer_text(answer)
    reason = answer.reason if isinstance(answer, RefusedLookup) else None
    return _seal(OpenAnswer(text, reason), _place(repr(obj), poll, kind), masker)


def seal_row(text: str, obj: Object, poll: int, masker: Masker) -> bytes:
    """As ``seal_answer`` for the text of a row."""
    return _seal(OpenAnswer(text), _place(repr(obj), poll, LookupAnswer.ROW), masker)


def open_answer(sealed: bytes, exact: str, poll: int, kind: str, masker: Masker) -> OpenAnswer:
    """Opens a sealed answer; ``exact`` is the ``repr`` of its object.

    Raises ``FatalError`` if it is damaged, or belongs to another object, poll or kind of answer."""
    text, reason = json.loads(masker.unseal(sealed, _place(exact, poll, kind)))
    return OpenAnswer(text, None if reason is None else Reason(reason))


def _seal(answer: OpenAnswer, place: bytes, masker: Masker) -> bytes:
    return masker.seal(json.dumps(answer).encode(), place)


def _place(exact: str, poll: int, kind: str) -> bytes:
    """The look-up to which a sealed answer is bound."""
    return f"{exact} {poll} {kind}".encode()


def seal_catalogue(text: str, masking: Masking | None) -> str:
    """Seals the text of a ``CatalogueRecord`` in a masked run: names of unknown tables come from records."""
    return text if masking is None else masking.masker.seal_text(text, _CATALOGUE)


def open_catalogue(stored: str, masking: Masking | None) -> str:
    """Restores the text of ``seal_catalogue``.  Raises ``FatalError`` if another key has sealed it."""
    return stored if masking is None else masking.masker.unseal_text(stored, _CATALOGUE)
