"""The baseline: the paper's equations as dense matrices, with gradients by autograd.

Straightforward on purpose: every similarity, weight and exponential is a whole N x N matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from progcl.miners.frozen import FrozenPosterior
from progcl.miners.progcl import ProGCLMix, ProGCLWeight


class DenseInfoNCE:
    """Eq. 1-2, with ProGCL's weights (Eq. 10-12) or mixed negatives (Eq. 13-16) from a fitted miner."""

    def __init__(self, tau: float, miner: FrozenPosterior | None = None) -> None:
        self.tau = tau
        self.miner = miner
        if miner is not None:
            first, second = miner.snapshot
            self.probability = miner.estimator.posterior(miner.normalize(first @ second.T))  # kept from epoch E on
        if isinstance(miner, ProGCLMix):
            lists = (miner.lists[0].T.long(), miner.lists[1].T.long())
            self.lists = [
                (columns, p.gather(1, columns))
                for columns, p in zip(lists, (self.probability, self.probability.T), strict=True)
            ]

    def __call__(self, h1: Tensor, h2: Tensor) -> Tensor:
        """The mean of the two views' losses."""
        z1, z2 = normalize(h1, dim=1), normalize(h2, dim=1)
        inter, first, second = z1 @ z2.T, z1 @ z1.T, z2 @ z2.T
        return (self.one_view(inter, first, second, 0) + self.one_view(inter.T, second, first, 1)) / 2

    def one_view(self, inter: Tensor, own: Tensor, other: Tensor, view: int) -> Tensor:
        """-log e^{θ(u,v)/τ} / (e^{θ(u,v)/τ} + negatives), averaged over the anchors."""
        negative = 1 - torch.eye(len(inter), dtype=inter.dtype, device=inter.device)
        between, within = torch.exp(inter / self.tau), torch.exp(own / self.tau)
        negatives = between * negative + within * negative
        if isinstance(self.miner, ProGCLWeight):
            negatives = negatives * self.weights(inter.detach(), negative, view)
        total = between.diag() + negatives.sum(dim=1)
        if isinstance(self.miner, ProGCLMix):
            total = total + torch.exp(self.mixed(inter, other, view) / self.tau).sum(dim=1)
        return -torch.log(between.diag() / total).mean()

    def weights(self, inter: Tensor, negative: Tensor, view: int) -> Tensor:
        """Eq. 10."""
        assert self.miner is not None
        p = self.probability if view == 0 else self.probability.T
        score = p * self.miner.normalize(inter) * negative
        return score / (score.sum(dim=1, keepdim=True) / (len(inter) - 1))

    def mixed(self, inter: Tensor, other: Tensor, view: int) -> Tensor:
        """Cosines of Eq. 13-15: of the anchor and a unit vector along α v_p + (1-α) v_q."""
        assert isinstance(self.miner, ProGCLMix)
        columns, p = self.lists[view]
        first, second = (columns[:, ranks] for ranks in self.miner.pairs)
        lean, rest = (p[:, ranks] for ranks in self.miner.pairs)
        alpha = lean / (lean + rest)
        length = torch.sqrt(alpha**2 + (1 - alpha) ** 2 + 2 * alpha * (1 - alpha) * other[first, second])
        return (alpha * inter.gather(1, first) + (1 - alpha) * inter.gather(1, second)) / length
