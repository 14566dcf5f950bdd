"""MoCHi: negatives mixed from the hardest ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from progcl.config.miners import MoCHiOptions
from progcl.miners.base import Block, remark_late_start
from progcl.miners.mixing import Seeded, draw_pairs, inverse_length, mixed_cosines


class MoCHi(Seeded):
    """Add negatives mixed from the hardest ones, with each other and with the anchor.

    Kalantidis et al., 2020, "Hard Negative Mixing for Contrastive Learning".

    Of the N' inter-view negatives most similar to the anchor q: m points α n_i + (1-α) n_j with α ~ U(0, 1), and m'
    points β q + (1-β) n_j with β ~ U(0, 1/2), all normalized to unit length. Ranks, α and β are drawn anew in every
    step and shared by the anchors, whose hardest differ.

    Args:
        start_epoch: end of the warm-up, until which the loss is plain InfoNCE
        hardest: N', at most N-1
        synthetic: m
        with_anchor: m'
        seed: of the miner's own random numbers

    Attributes:
        pairs: ranks of n_i and n_j, [2, m]
        shares: α, [m]
        partners: ranks of the n_j that are mixed with the anchor, [m']
        anchor_shares: β, [m']
    """

    pairs: Tensor
    shares: Tensor
    partners: Tensor
    anchor_shares: Tensor

    def __init__(
        self, start_epoch: int = 0, hardest: int = 1024, synthetic: int = 1024, with_anchor: int = 128, seed: int = 0
    ) -> None:
        super().__init__(seed)
        MoCHiOptions(  # raises if a value is out of range
            start_epoch=start_epoch, hardest=hardest, synthetic=synthetic, with_anchor=with_anchor
        )
        self.start_epoch = start_epoch
        self.hardest = hardest
        self.synthetic = synthetic
        self.with_anchor = with_anchor
        for name in ("pairs", "shares", "partners", "anchor_shares"):
            self.register_buffer(name, torch.empty(0), persistent=False)

    @property
    def active(self) -> bool:
        """Whether the warm-up is over, and there are points to add."""
        return (self.epoch or 0) >= self.start_epoch and self.synthetic + self.with_anchor > 0

    @property
    def mines(self) -> bool:
        """Whether the warm-up is over, and there are points to add."""
        return self.active

    def remarks(self, epochs: int, batched: bool) -> list[str]:
        """That mining never starts."""
        return remark_late_start(self.start_epoch, epochs)

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Draw this step's ranks and shares."""
        self.warn_without_epoch(self.start_epoch)
        if not self.active:
            return
        negatives = (len(z1) if anchors is None else len(anchors)) - 1
        self.count = min(self.hardest, self.fewest_negatives or negatives)
        draw: dict[str, Any] = {"generator": self.generator}
        self.pairs = draw_pairs(self.count, self.synthetic, **draw).to(z1.device)
        self.shares = torch.rand(self.synthetic, **draw).to(z1)
        self.partners = torch.randint(0, self.count, (self.with_anchor,), **draw).to(z1.device)
        self.anchor_shares = torch.rand(self.with_anchor, **draw).div_(2).to(z1)

    def extra(self, block: Block) -> Tensor | None:
        """Cosines with the mixed points, [b, m + m']."""
        if not self.active:
            return None
        sim = block.sim[:, 0]
        columns = block.masked(block.sim[:, :1].detach(), -torch.inf)[:, 0].topk(self.count, dim=1).indices
        first, second = (columns[:, ranks] for ranks in self.pairs)
        mixed = mixed_cosines(sim, block.banks[0], first, second, self.shares)
        share, partner = self.anchor_shares, sim.gather(1, columns[:, self.partners])
        rest = 1 - share
        squared = share**2 + rest**2 + 2 * share * rest * partner
        return torch.cat([mixed, (share + rest * partner) * inverse_length(squared)], dim=1)

    def extra_repr(self) -> str:
        """Options of the miner."""
        return f"hardest={self.hardest}, synthetic={self.synthetic}, with_anchor={self.with_anchor}"
