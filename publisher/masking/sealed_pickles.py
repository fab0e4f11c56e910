"""Sealed pickles: what a masked run ships to its tasks, and what tasks hand back, may quote records.

Engines write large ones to disk.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from publisher.masking.masker import Masking

_PLACE = b"pickle"


def seal_object(content: object, masking: Masking) -> bytes:
    """Pickles and seals an object."""
    return masking.masker.seal(pickle.dumps(content), _PLACE)


def unseal_object(sealed: bytes, masking: Masking) -> Any:
    """Restores an object that ``seal_object`` has sealed."""
    return pickle.loads(masking.masker.unseal(sealed, _PLACE))  # noqa: S301 - authenticated


def reduce_sealed(work: Any, masking: Masking | None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Implements ``__reduce__`` of a dataclass whose fields are sealed in a masked run."""
    content = tuple(getattr(work, field.name) for field in fields(work))
    if masking is None:
        return type(work), content
    return _restore, (type(work), seal_object(content, masking), masking)


def _restore(kind: Callable[..., Any], sealed: bytes, masking: Masking) -> Any:
    return kind(*unseal_object(sealed, masking))
