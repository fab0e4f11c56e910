"""Hashes many texts at once, with the same results on every machine and in every version of the program.

The function is MurmurHash64A (Austin Appleby, public domain), applied by column: NumPy processes one word of
eight bytes of all texts at a time.  A stored state is compared with hashes that are computed years later, so
the function must never change; tests compare it with a plain implementation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from publisher.model.arrays import Int64Array

Hashes = npt.NDArray[np.uint64]

_M = np.uint64(0xC6A4A7935BD1E995)
_R = np.uint64(47)
_WORD = (1 << 64) - 1
_FEW = 32
"""Maximum number of texts whose words are mixed text by text, which is faster than by the column."""
NULL = np.uint64(0)
"""The hash of NULL, which no text has."""

# masks of the first n bytes of a word, which are its lowest bytes
_TAIL_MASKS = np.array([(1 << 8 * n) - 1 for n in range(8)], np.uint64)


def text_hashes(texts: pa.Array) -> Hashes:
    """Returns the hash of each text; only NULL has the hash 0."""
    offsets, data = _buffers(texts)
    hashes = _murmur(offsets, data)
    hashes[hashes == NULL] = 1
    if texts.null_count:
        hashes[texts.is_null().to_numpy(zero_copy_only=False)] = NULL
    return hashes


def _buffers(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Returns the offsets of the texts, and their bytes followed by a word of zeros."""
    _, offsets, data = texts.buffers()
    count = len(texts)
    if not count:
        return np.zeros(1, np.int64), np.zeros(8, np.uint8)
    places = np.frombuffer(offsets, np.int32, count + 1, texts.offset * 4)
    first, last = int(places[0]), int(places[-1])
    octets = np.zeros(last - first + 8, np.uint8)
    if last > first:
        octets[:-8] = np.frombuffer(data, np.uint8, last - first, first)
    return places.astype(np.int64) - first, octets


def _murmur(offsets: npt.NDArray[np.int64], octets: npt.NDArray[np.uint8]) -> Hashes:
    """Computes MurmurHash64A with seed 0 of each piece of the bytes."""
    at, sizes = offsets[:-1], np.diff(offsets)
    # unaligned loads: a word begins at every byte
    words = np.lib.stride_tricks.as_strided(
        octets[:8].view(np.uint64), (len(octets) - 7,), (1,), writeable=False
    )
    hashes = sizes.astype(np.uint64) * _M
    word_counts, tail_sizes = sizes >> 3, sizes & 7
    number = int(word_counts.min(initial=0)) if len(sizes) > _FEW else 0
    for shared in range(number):
        hashes ^= _scramble(words[at + 8 * shared])
        hashes *= _M
    # with each further word, fewer texts are long enough
    longer = np.flatnonzero(word_counts > number)
    while len(longer) > _FEW:
        part = hashes[longer] ^ _scramble(words[at[longer] + 8 * number])
        hashes[longer] = part * _M
        number += 1
        longer = longer[word_counts[longer] > number]
    for text in longer.tolist():
        own = words[at[text] + 8 * np.arange(number, word_counts[text])]
        hashes[text] = _mix_words(int(hashes[text]), _scramble(own))
    with_tail = np.flatnonzero(tail_sizes)
    if len(with_tail) == len(tail_sizes):
        hashes ^= words[at + 8 * word_counts] & _TAIL_MASKS[tail_sizes]
        hashes *= _M
    elif len(with_tail):
        places = at[with_tail] + 8 * word_counts[with_tail]
        tails = words[places] & _TAIL_MASKS[tail_sizes[with_tail]]
        hashes[with_tail] = (hashes[with_tail] ^ tails) * _M
    return _finish(hashes)


def _mix_words(mixed: int, scrambled: Hashes) -> int:
    """Mixes the words of one text, one after the other."""
    factor = int(_M)
    for word in scrambled.tolist():
        mixed = (mixed ^ word) * factor & _WORD
    return mixed


def _scramble(words: Hashes) -> Hashes:
    words *= _M
    words ^= words >> _R
    words *= _M
    return words


def _finish(hashes: Hashes) -> Hashes:
    hashes ^= hashes >> _R
    hashes *= _M
    hashes ^= hashes >> _R
    return hashes


def bucket_of(hashes: Hashes, buckets: int) -> Int64Array:
    """The bucket of each hash: buckets are ranges of hashes, and their number is a power of two."""
    bits = buckets.bit_length() - 1
    if not bits:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)
