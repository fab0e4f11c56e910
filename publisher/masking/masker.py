"""The masker of a run: replaces values, with a key where hashes need it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from publisher.errors import FatalError, UsageError
from publisher.masking.options import MaskingOptions, MaskMethod, names_match
from publisher.redaction import HIDDEN, mask_values, remember

LEAST_KEY = 32
"""Minimum number of characters of a key."""
_HASH_BYTES = 16
_ELLIPSIS = "\u2026"
HIDDEN_DETAIL = (
    "masking hides the details, which may quote values: a replay without --masked shows them"
)
"""The text that replaces messages about records."""


@dataclass(frozen=True, slots=True)
class Masking:
    """The masking of a run as its tasks get it: without the key, which every process reads itself."""

    options: MaskingOptions
    key_id: str
    """Keyed hash that tells keys apart."""

    @classmethod
    def of(cls, options: MaskingOptions) -> Masking:
        """Reads the key to identify it.  Raises ``UsageError`` if it is missing or too short."""
        key = read_key(options)
        return cls(options, _key_id(key))

    @property
    def masker(self) -> Masker:
        """The masker of this process."""
        return _masker(self)


@lru_cache(maxsize=4)
def _masker(masking: Masking) -> Masker:
    key = read_key(masking.options)
    if _key_id(key) != masking.key_id:
        raise FatalError(
            f"the masking key in {masking.options.key_place} of this process is not the key of the run: "
            "give all processes the same key"
        )
    return Masker(masking.options, key)


def read_key(options: MaskingOptions) -> bytes:
    """Reads the key from its environment variable or file.  Raises ``UsageError``."""
    place = options.key_place
    if options.key_file is not None:
        try:
            text = options.key_file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise UsageError(f"the masking key cannot be read: {place}: {reason}") from None
    else:
        text = os.environ.get(options.key_env, "")
    text = text.strip()
    if len(text) < LEAST_KEY:
        raise UsageError(
            f"the masking key in {place} has {len(text)} characters and needs at least {LEAST_KEY}: set it, "
            "for instance to the output of openssl rand -hex 32"
        )
    remember([text])
    mask_values()
    return text.encode()


def _key_id(key: bytes) -> str:
    return _derive(key, b"xds-mask-id").hex()[:16]


def _derive(key: bytes, purpose: bytes) -> bytes:
    """Derives a key of 32 bytes for one purpose."""
    return hashlib.blake2b(hashlib.sha512(key).digest(), digest_size=32, person=purpose).digest()


class Masker:
    """Masks values with one key."""

    def __init__(self, options: MaskingOptions, key: bytes) -> None:
        self._options = options
        self._hash_key = _derive(key, b"xds-mask-hash")

    def method(self, names: Sequence[str], *, without_schema: bool) -> MaskMethod | None:
        """The method for a column with these names, see ``names_match``; ``None`` if it is not masked."""
        for method in MaskMethod:
            patterns = self._options.patterns(method)
            if names_match(names, patterns, without_schema=without_schema):
                return method
        return None

    def hashes(self, names: Sequence[str], *, without_schema: bool) -> bool:
        """Returns whether ``hash`` names a column."""
        return names_match(names, self._options.hash, without_schema=without_schema)

    def mask(self, method: MaskMethod) -> Callable[[str], str]:
        """The function that masks the values of a column."""
        if method is MaskMethod.HASH:
            return self.hash
        return self.shorten if method is MaskMethod.SHORTEN else redact

    def hash(self, text: str) -> str:
        """The keyed hash of a text; equal for equal texts."""
        octets = text.encode(errors="surrogatepass")
        return hashlib.blake2b(octets, digest_size=_HASH_BYTES, key=self._hash_key).hexdigest()

    def shorten(self, text: str) -> str:
        """The first character of a text of two or more."""
        return text[: min(1, len(text) // 2)] + _ELLIPSIS


def redact(_: str) -> str:
    """The text that replaces redacted values."""
    return HIDDEN
