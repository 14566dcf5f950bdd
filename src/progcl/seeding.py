"""Random numbers that belong to nodes: the same whoever asks, in whatever order, without being kept."""

from __future__ import annotations

import hashlib

from torch import Tensor

HASH_RANGE = 2**32


def hash_pairs(seed: int, first: Tensor, second: Tensor) -> Tensor:
    """A whole number below 2^32 for each pair of whole numbers: two rounds of multiplying and folding 32 bits."""
    mixed = (first * 0x9E3779B1).add_(seed % 2**31).bitwise_and_(HASH_RANGE - 1)
    return _fold(_fold(mixed, 0x7FEB352D) + second * 0x85EBCA77, 0x846CA68B)


def _fold(x: Tensor, factor: int) -> Tensor:
    """In place."""
    x.bitwise_xor_(x >> 16).mul_(factor).bitwise_and_(HASH_RANGE - 1)
    return x.bitwise_xor_(x >> 15)


def derive_seed(seed: int, name: str) -> int:
    """A seed of its own for every named generator."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")
