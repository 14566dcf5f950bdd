"""Schedules over a run, from its progress of 0 to 1."""

from __future__ import annotations

import math


def cosine_decay(progress: float) -> float:
    """From 1 to 0."""
    return (1 + math.cos(math.pi * progress)) / 2


def warmup_cosine(progress: float, warmup: float) -> float:
    """Linear from 0 to 1 over the first share `warmup` of the run, then a cosine decay to 0."""
    return progress / warmup if progress < warmup else cosine_decay((progress - warmup) / max(1 - warmup, 1e-12))
