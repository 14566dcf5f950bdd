"""Ring: negatives from a ring of similarities around the anchor."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from progcl.config.miners import RingOptions
from progcl.miners.base import Block, Miner, Plan


class Ring(Miner):
    """Keep the negatives between two quantiles of the anchor's similarities.

    Wu et al., 2021, "Conditional Negative Sampling for Contrastive Learning of Visual Representations".

    Of an anchor's n negatives, the ⌊low·n⌋ least similar and the ⌊(1-high)·n⌋ most similar are left out. No
    gradient runs through the choice. While the ring narrows, `low` rises from 0 to its value, and the most similar that
    are left out are a constant share (1-high)/(1-low) of the rest.

    `keep="hard"` is a ring among the hardest, as in the original: in the end the tenth that is most similar,
    without the tenth of it that is most similar. The 100 epochs in which it narrows are ours. `keep="middle"`
    leaves out the easiest and the hardest tenth, from the first epoch on.

    Args:
        low: quantile below which negatives are too easy, 0 keeps all easy ones; None for that of `keep`
        high: quantile above which they are probably false, 1 keeps all hard ones; None for that of `keep`
        anneal: epochs in which the ring narrows; None for that of `keep`, or 0 where a quantile is given
        keep: `hard` or `middle`
    """

    def __init__(
        self,
        low: float | None = None,
        high: float | None = None,
        anneal: int | None = None,
        keep: Literal["hard", "middle"] = "hard",
    ) -> None:
        super().__init__()
        options = RingOptions(keep=keep, low=low, high=high, anneal=anneal)  # raises if a value is out of range
        self.low, self.high, self.anneal = options.width

    @property
    def quantiles(self) -> tuple[float, float]:
        """The ring of the present epoch."""
        progress = min(1.0, (self.epoch or 0) / self.anneal) if self.anneal else 1.0
        if progress == 1:
            return self.low, self.high
        low = progress * self.low
        return low, 1 - (1 - low) * (1 - self.high) / (1 - self.low)

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Check that epochs are set, which annealing needs."""
        self.warn_without_epoch(self.anneal)

    def weight(self, block: Block) -> Tensor:
        """1 inside the ring, 0 outside, [b, V, N]."""
        with torch.no_grad():
            count = int(block.count[0]) if block.excluded is None else block.count
            limits = ring_limits(block.masked(block.sim, torch.inf).flatten(1), count, *self.quantiles)
            low, high = (limit[:, None, None] for limit in limits)
            return ((low <= block.sim) & (block.sim <= high)).to(block.sim.dtype)

    def plan(self) -> Plan:
        """The two quantiles."""
        return Plan(ring=self.quantiles)

    def extra_repr(self) -> str:
        """Options of the miner."""
        return f"low={self.low}, high={self.high}, anneal={self.anneal}"


def ring_limits(sim: Tensor, count: int | Tensor, low: float, high: float, scale: float = 1) -> tuple[Tensor, Tensor]:
    """Limits that leave out the ⌊low·count⌋ least and the ⌊(1-high)·count⌋ most similar negatives of a row, [b] each.

    Rows of `sim` [b, n] hold `count` negatives, one number for all or one per row [b], `scale` times their cosines, and
    infinity elsewhere. A limit is the midpoint of two adjacent values, or just outside where these are equal: rounding
    does not decide which negatives are kept, and ties are kept.
    """
    if isinstance(count, Tensor):
        limits = sim.new_empty(2, len(sim))
        for number in count.unique().tolist():
            rows = (count == number).nonzero().flatten()
            limits[:, rows] = torch.stack(ring_limits(sim[rows], number, low, high, scale))
        return limits[0], limits[1]
    skipped = int(low * count + 1e-9)
    end = max(skipped + 1, count - int((1 - high) * count + 1e-9))
    slack = 16 * torch.finfo(sim.dtype).eps * scale
    first = _midpoint(sim, skipped) - slack if skipped else sim.new_full((len(sim),), -torch.inf)
    last = _midpoint(sim, end) + slack if end < count else sim.new_full((len(sim),), torch.inf)
    return first, last


def _midpoint(values: Tensor, rank: int) -> Tensor:
    """Midpoint of each row's values of rank `rank` - 1 and `rank`, ascending from 0, [b]."""
    if values.device.type == "cpu":  # numpy's partition is several times as fast as a sort
        ordered = torch.from_numpy(np.partition(values.detach().to(_numpy_dtype(values)).numpy(), rank, axis=1))
    else:
        ordered = values.sort(dim=1).values
    return ((ordered[:, :rank].amax(dim=1) + ordered[:, rank]) / 2).to(values.dtype)


def _numpy_dtype(values: Tensor) -> torch.dtype:
    return torch.float64 if values.dtype == torch.float64 else torch.float32
