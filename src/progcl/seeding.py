"""Seeds of named generators, and counter-based random numbers: functions of a key, not of the order of draws."""

from __future__ import annotations

import hashlib

from torch import Tensor

HASH_RANGE = 2**32


def hash_pairs(seed: int, first: Tensor, second: Tensor) -> Tensor:
    """A pseudorandom integer below 2^32 for each pair of integers: two multiply-xorshift rounds on 32 bits."""
    mixed = (first * 0x9E3779B1).add_(seed % 2**31).bitwise_and_(HASH_RANGE - 1)
    return _mix(_mix(mixed, 0x7FEB352D) + second * 0x85EBCA77, 0x846CA68B)


def _mix(x: Tensor, factor: int) -> Tensor:
    """One multiply-xorshift round, in place."""
    x.bitwise_xor_(x >> 16).mul_(factor).bitwise_and_(HASH_RANGE - 1)
    return x.bitwise_xor_(x >> 15)


def derive_seed(seed: int, name: str) -> int:
    """An independent seed for every named generator of a run."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:7], "big")
