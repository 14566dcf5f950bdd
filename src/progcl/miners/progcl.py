"""ProGCL's two ways to use the probability that a negative is a true one (Eq. 10-16 of the paper)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from progcl.config.miners import ProGCLMixOptions
from progcl.miners.base import Block, Plan, iterate_blocks
from progcl.miners.frozen import FrozenPosterior
from progcl.miners.mixing import blend, draw_pairs, mixed_cosines
from progcl.posteriors.base import PosteriorLike


class ProGCLWeight(FrozenPosterior):
    """Weight each negative by how hard and how probably true it is (ProGCL-weight, Eq. 10-12).

    Xia et al., 2022, "ProGCL: Rethinking Hard Negative Mining in Graph Contrastive Learning".

    w(i,k) = p(true | s_ik)·s_ik / (1/(N-1) Σ_{j≠i} p(true | s_ij)·s_ij), for inter- and intra-view negatives.
    p is frozen at epoch E, s is the present one (`released`: both frozen). No gradient runs through w.
    An anchor whose weights would all be 0 keeps plain InfoNCE.
    """

    def weight(self, block: Block) -> Tensor | None:
        """w(i,k), [b, 1, N]."""
        if not self.active:
            return None
        with torch.no_grad():
            score = self.score(block.rows, block.view, None if self.released else block.sim[:, 0])
            if block.excluded is not None:
                score.masked_fill_(block.excluded, 0)
            mean = score.sum(dim=1, keepdim=True).div_(block.count[:, None] // block.sim.size(1))
            score = torch.where(mean > 0, score.div_(mean), 1.0)
        return score.unsqueeze(1)

    def plan(self) -> Plan | None:
        """p, and the bounds that normalize cosines to s."""
        if not self.active:
            return Plan()
        if self.released:
            return None
        low, high = self.bounds.tolist()
        return Plan(self.key, self._tile_probability, (low, high))

    def _tile_probability(self, view: int, rows: slice, columns: slice) -> Tensor:
        return self.probability(self.frozen_similarities(rows, view, columns), view, rows, columns)


class ProGCLMix(FrozenPosterior):
    """Add negatives mixed from the hardest ones, leaning to the probably true (ProGCL-mix, Eq. 13-16).

    Xia et al., 2022, "ProGCL: Rethinking Hard Negative Mining in Graph Contrastive Learning".

    ũ_k = α_k v_p + (1-α_k) v_q with α_k = p_ip / (p_ip + p_iq), where p ≠ q are two of the N' inter-view
    negatives with the largest w of Eq. 10 at epoch E; θ(u_i, ũ_k) is the cosine, so ũ_k counts with unit length.
    The pairs of ranks are drawn anew in every step and shared by the anchors, whose candidates differ.
    `released`: similarities are mixed instead of vectors, by p·s instead of p, not normalized to unit length, along
    one permutation of the N' (m = N'), which may pair a negative with itself.

    Args:
        hardest: N', at most N-1
        synthetic: m (`released`: always N')

    Attributes:
        candidates: for each view, the hardest negatives of all anchors [N', N], where memory allows to cache them
        pairs: this step's pairs of ranks, [2, m]
    """

    pairs: Tensor

    def __init__(
        self,
        start_epoch: int = 400,
        prior: float = 0.05,
        iterations: int = 10,
        samples: int = 100,
        hardest: int = 1000,
        synthetic: int = 1000,
        variant: Literal["paper", "released"] = "paper",
        true_component: Literal["mean", "weight"] = "mean",
        estimator: str | PosteriorLike = "beta",
        per_batch: bool = False,
        seed: int = 0,
        tol: float = 0.0,
        require_two_modes: bool = False,
    ) -> None:
        common = (start_epoch, prior, iterations, samples, variant, true_component, estimator, per_batch, seed)
        super().__init__(*common, tol, require_two_modes)
        ProGCLMixOptions(hardest=hardest, synthetic=synthetic)  # raises if a value is out of range
        self.hardest = hardest
        self.synthetic = synthetic
        self.register_buffer("pairs", torch.empty(2, 0, dtype=torch.long), persistent=False)
        self.candidates: tuple[Tensor, ...] = ()
        self.candidates_key: object = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "candidates": (), "candidates_key": None}  # a copy ranks again

    @property
    def count(self) -> int:
        """N' for the present anchors."""
        return min(self.hardest, self.fewest_negatives or self.anchor_vectors.size(1) - 1)

    def prepare_anchors(self) -> None:
        """Rank the negatives, once for the whole graph and in every step for some anchors; draw the pairs of ranks."""
        changed = self.candidates_key is None or self.candidates_key is not self.key
        if changed and self.fewest_negatives is None:
            views = (0,) if self.released else (0, 1)
            needed = len(views) * self.count * self.anchor_vectors.size(1) * self._index_dtype.itemsize
            self.candidates = tuple(self._rank_all(view) for view in views) if needed <= self.memory else ()
            self.candidates_key = self.key
        self.pairs = self._draw_pairs(self.count).to(self.anchor_vectors.device)

    def extra(self, block: Block) -> Tensor | None:
        """θ(u_i, ũ_k), [b, m]."""
        if not self.active:
            return None
        columns = self._get_candidates(block)
        weights = self._mixing_weights(block.view, block.rows, columns)
        first, second = (columns[:, ranks] for ranks in self.pairs)
        of_first, of_second = (weights[:, ranks] for ranks in self.pairs)
        alpha = torch.where(of_first + of_second > 0, of_first / (of_first + of_second), 0.5)
        if self.released:
            return blend(block.sim[:, 0], first, second, alpha)
        return mixed_cosines(block.sim[:, 0], block.banks[0], first, second, alpha)

    def plan(self) -> Plan | None:
        """The candidates, their p, and the pairs."""
        if not self.active:
            return Plan()
        ascending = self.anchors is None or bool((self.anchors.diff() > 0).all())
        if self.released or self.count < 2 or not self.candidates or not ascending or self.fewest_negatives:
            return None
        weights = self._cached_mixing_weights
        return Plan(self.key, candidates=self.candidates, mixing_weights=weights, pairs=self.pairs)

    def _draw_pairs(self, count: int) -> Tensor:
        if self.released:
            return torch.stack([torch.arange(count), torch.randperm(count, generator=self.generator)])
        return draw_pairs(count, self.synthetic, self.generator)

    def _get_candidates(self, block: Block) -> Tensor:
        """The hardest negatives of some anchors, [b, N'], in the order of their nodes."""
        if not self.candidates or block.excluded is not None:
            return self._rank(block.view, block.rows, block.excluded)
        return self.candidates[0 if self.released else block.view][:, block.rows].T.long()

    def _rank(self, view: int, rows: Tensor, excluded: Tensor | None = None) -> Tensor:
        score = self.score(rows, view)
        if excluded is not None:
            score.masked_fill_(excluded, -1)
        score[torch.arange(len(rows), device=rows.device), rows] = -1  # below a true negative's 0
        columns = score.topk(self.count, dim=1, sorted=False).indices
        if self.anchors is None:  # `nonzero` of a mask is in order, and faster than a sort
            mask = torch.zeros_like(score, dtype=torch.bool).scatter_(1, columns, True)
            return mask.nonzero()[:, 1].view_as(columns)
        return columns.gather(1, self.anchors[columns].argsort(dim=1))

    def _rank_all(self, view: int) -> Tensor:
        """The hardest negatives of all anchors, [N', N], in the order of their nodes."""
        nodes, device = self.anchor_vectors.size(1), self.anchor_vectors.device
        columns = torch.empty(self.count, nodes, dtype=self._index_dtype, device=device)
        for rows in iterate_blocks(nodes):
            index = torch.arange(rows.start, rows.stop, device=device)
            columns[:, rows] = self._rank(view, index).T.to(self._index_dtype)
        return columns

    @property
    def _index_dtype(self) -> torch.dtype:
        return torch.uint16 if self.anchor_vectors.size(1) <= 2**16 else torch.int32

    def _mixing_weights(self, view: int, rows: Tensor | slice, columns: Tensor) -> Tensor:
        """Unnormalized mixing coefficients of `columns` [b, N']: p (`released`: p·s)."""
        s = self.frozen_similarities(rows, view).gather(1, columns)
        p = self.probability(s, view, rows, columns)
        return p * s if self.released else p

    def _cached_mixing_weights(self, view: int, rows: slice) -> Tensor:
        return self._mixing_weights(view, rows, self.candidates[view][:, rows].T.long()).T.contiguous()
