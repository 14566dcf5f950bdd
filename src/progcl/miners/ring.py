"""Ring: leave out the easiest and the hardest negatives."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from progcl.errors import InputError, in_range
from progcl.miners.base import Block, Miner, Plan


class Ring(Miner):
    """Keep the negatives between two quantiles of the anchor's similarities (Wu et al., 2021).

    Of an anchor's n negatives, ⌊low·n⌋ of the least similar and ⌊(1-high)·n⌋ of the most similar are left out. No
    gradient runs through the choice.

    Args:
        low: quantile below which negatives are too easy; with 0, none is
        high: quantile above which they are too hard, and probably false; with 1, none is
        anneal: epochs over which the ring narrows from all negatives to its final width
    """

    def __init__(self, low: float = 0.1, high: float = 0.9, anneal: int = 0) -> None:
        super().__init__()
        in_range("low", low, 0, 1, "a share of the negatives, such as 0.1")
        in_range("high", high, 0, 1, "a share of the negatives, such as 0.9")
        in_range("anneal", anneal, 0)
        if low >= high:
            raise InputError(f"`low` needs to be below `high` (got {low:g} and {high:g})", "such as 0.1 and 0.9")
        self.low = low
        self.high = high
        self.anneal = anneal

    def extra_repr(self) -> str:
        """What the miner is set to."""
        return f"low={self.low}, high={self.high}, anneal={self.anneal}"

    @property
    def quantiles(self) -> tuple[float, float]:
        """The ring of the present epoch."""
        done = min(1.0, (self.epoch or 0) / self.anneal) if self.anneal else 1.0
        return done * self.low, 1 - done * (1 - self.high)

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Nothing to look at before the rows are there."""
        self.remind(self.anneal)

    def weight(self, block: Block) -> Tensor:
        """1 inside the ring, 0 outside, [b, V, N]."""
        with torch.no_grad():
            limits = ring_limits(block.masked(block.sim, torch.inf).flatten(1), block.count, *self.quantiles)
            low, high = (limit[:, None, None] for limit in limits)
            return ((low <= block.sim) & (block.sim <= high)).to(block.sim.dtype)

    def plan(self) -> Plan:
        """The two quantiles."""
        return Plan(ring=self.quantiles)


def ring_limits(sim: Tensor, count: int, low: float, high: float, scale: float = 1) -> tuple[Tensor, Tensor]:
    """Between which values to keep all but ⌊low·count⌋ of the least and ⌊(1-high)·count⌋ of the most similar, [b] each.

    Rows of `sim` [b, n] hold `count` negatives, `scale` times their cosines, and infinity elsewhere. A limit lies in
    the middle of two neighbors, or, where these are equal, just outside: rounding does not decide who is kept, and
    equals are kept.
    """
    left_out = int(low * count + 1e-9)
    kept = max(left_out + 1, count - int((1 - high) * count + 1e-9))
    slack = 16 * torch.finfo(sim.dtype).eps * scale
    first = _between(sim, left_out) - slack if left_out else sim.new_full((len(sim),), -torch.inf)
    last = _between(sim, kept) + slack if kept < count else sim.new_full((len(sim),), torch.inf)
    return first, last


def _between(values: Tensor, rank: int) -> Tensor:
    """The middle between a row's values number rank - 1 and rank, counted from 0 upwards."""
    if values.device.type == "cpu":  # by numpy's partition, several times as fast as a sort
        ordered = torch.from_numpy(np.partition(values.detach().to(_numpy_type(values)).numpy(), rank, axis=1))
    else:
        ordered = values.sort(dim=1).values
    return ((ordered[:, :rank].amax(dim=1) + ordered[:, rank]) / 2).to(values.dtype)


def _numpy_type(values: Tensor) -> torch.dtype:
    return torch.float64 if values.dtype == torch.float64 else torch.float32
