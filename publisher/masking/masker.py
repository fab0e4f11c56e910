"""The masker of a run: replaces values with the key, and seals texts so that only the key opens them."""

from __future__ import annotations

import binascii
import hashlib
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from publisher.errors import FatalError, UsageError
from publisher.masking.options import MaskingOptions, MaskMethod, names_match
from publisher.redaction import HIDDEN, mask_values, remember

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LEAST_KEY = 32
"""Minimum number of characters of a key."""
_HASH_BYTES = 16
_NONCE_BYTES = 12
_NOT_OPENED = (
    "sealed data cannot be opened: it is damaged or misplaced, or was sealed with another masking key; use "
    "the key with which it was written"
)
_ELLIPSIS = "\u2026"


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
        Masker(options, key).seal(b"", b"")  # names a missing extra before anything is read
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
    """Masks values and seals texts with one key."""

    def __init__(self, options: MaskingOptions, key: bytes) -> None:
        self._options = options
        self._hash_key = _derive(key, b"xds-mask-hash")
        self._seal_key = _derive(key, b"xds-mask-seal")
        self._row_key = _derive(key, b"xds-mask-row")

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
        """The beginning of a text, at most half of it."""
        return text[: min(self._options.shorten_to, len(text) // 2)] + _ELLIPSIS

    def perpetrator(self, name: str) -> str:
        """The user of a change as it is published."""
        return self.hash(name) if self._options.perpetrators == "hash" else name

    def fingerprints(self, numbers: Sequence[int | None]) -> list[int | None]:
        """Keyed hashes of the fingerprints of rows, which would otherwise confirm guesses at keys."""
        return [None if number is None else self._fingerprint(number) for number in numbers]

    def _fingerprint(self, number: int) -> int:
        octets = number.to_bytes(8, "little", signed=True)
        digest = hashlib.blake2b(octets, digest_size=8, key=self._row_key).digest()
        return int.from_bytes(digest, "little", signed=True)

    def seal(self, octets: bytes, place: bytes) -> bytes:
        """Encrypts octets, so that only the key opens them, and only for the same place."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, octets, place)

    def unseal(self, sealed: bytes, place: bytes) -> bytes:
        """Decrypts the result of ``seal``.  Raises ``FatalError`` for other octets, or another place."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - an extra

        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            raise FatalError(_NOT_OPENED) from None

    def seal_text(self, text: str, place: bytes) -> str:
        """``seal`` for text: returns Base64."""
        return binascii.b2a_base64(self.seal(text.encode(), place), newline=False).decode()

    def unseal_text(self, sealed: str, place: bytes) -> str:
        """Decrypts the result of ``seal_text``.  Raises ``FatalError`` for other texts."""
        try:
            octets = binascii.a2b_base64(sealed)
        except ValueError:
            raise FatalError(_NOT_OPENED) from None
        return self.unseal(octets, place).decode()

    @cached_property
    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - an extra

        return AESGCM(self._seal_key)


def redact(_: str) -> str:
    """The text that replaces redacted values."""
    return HIDDEN
