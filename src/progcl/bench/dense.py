"""The baseline of `bench loss`: the paper's equations as dense matrices, differentiated by autograd.

Straightforward on purpose: all similarities, weights and exponentials are N x N matrices.
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
            # [N, N], constant from epoch E on
            self.probability = miner.estimator.posterior(miner.normalize(first @ second.T))
        if isinstance(miner, ProGCLMix):
            lists = (miner.candidates[0].T.long(), miner.candidates[1].T.long())
            self.lists = [
                (columns, p.gather(1, columns))
                for columns, p in zip(lists, (self.probability, self.probability.T), strict=True)
            ]

    def __call__(self, h1: Tensor, h2: Tensor) -> Tensor:
        """The mean of both views' losses; h1 and h2 are [N, d]."""
        z1, z2 = normalize(h1, dim=1), normalize(h2, dim=1)
        inter, first, second = z1 @ z2.T, z1 @ z1.T, z2 @ z2.T
        return (self.view_loss(inter, first, second, 0) + self.view_loss(inter.T, second, first, 1)) / 2

    def view_loss(self, inter: Tensor, own: Tensor, other: Tensor, view: int) -> Tensor:
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
        """Weights of the negatives by Eq. 10, [N, N]."""
        assert self.miner is not None
        p = self.probability if view == 0 else self.probability.T
        score = p * self.miner.normalize(inter) * negative
        return score / (score.sum(dim=1, keepdim=True) / (len(inter) - 1))

    def mixed(self, inter: Tensor, other: Tensor, view: int) -> Tensor:
        """Cosines of the anchors and their mixed negatives, along α v_p + (1-α) v_q (Eq. 13-15), [N, pairs]."""
        assert isinstance(self.miner, ProGCLMix)
        columns, p = self.lists[view]
        first, second = (columns[:, ranks] for ranks in self.miner.pairs)
        p_first, p_second = (p[:, ranks] for ranks in self.miner.pairs)
        alpha = p_first / (p_first + p_second)
        length = torch.sqrt(alpha**2 + (1 - alpha) ** 2 + 2 * alpha * (1 - alpha) * other[first, second])
        return (alpha * inter.gather(1, first) + (1 - alpha) * inter.gather(1, second)) / length
