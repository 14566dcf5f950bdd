"""Ring: leave out the easiest and the hardest negatives."""

from __future__ import annotations

import torch
from torch import Tensor

from progcl.contrast import Block, Miner
from progcl.errors import InputError, in_range
from progcl.tiles import Plan, ring_limits


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
