"""ProGCL's two ways to use the probability that a negative is a true one (Eq. 10-16 of the paper)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from progcl.errors import in_range
from progcl.miners.base import Block, Plan, blocks
from progcl.miners.frozen import FrozenPosterior
from progcl.miners.mixing import blend, draw_pairs, mixed_cosines
from progcl.posteriors.base import PosteriorLike


class ProGCLWeight(FrozenPosterior):
    """Weight each negative by how hard and how probably true it is (ProGCL-weight, Eq. 10-12).

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
            mean = score.sum(dim=1, keepdim=True).div_(score.size(1) - 1)
            score = torch.where(mean > 0, score.div_(mean), 1.0)
        return score.unsqueeze(1)

    def plan(self) -> Plan | None:
        """p, and the range that makes s of cosines."""
        if not self.active:
            return Plan()
        if self.released:
            return None
        low, high = self.bounds.tolist()
        return Plan(self.key, self._probability, (low, high))

    def _probability(self, view: int, rows: slice, columns: slice) -> Tensor:
        return self.probability(self.frozen(rows, view, columns), view, rows, columns)


class ProGCLMix(FrozenPosterior):
    """Add negatives mixed from the hardest ones, leaning to the probably true (ProGCL-mix, Eq. 13-16).

    ũ_k = α_k v_p + (1-α_k) v_q with α_k = p_ip / (p_ip + p_iq), where p ≠ q are two of the N' inter-view
    negatives with the largest w of Eq. 10 at epoch E; θ(u_i, ũ_k) is the cosine, so ũ_k counts with unit length.
    The pairs of ranks are drawn anew in every step and shared by the anchors, whose lists differ.
    `released`: similarities are mixed instead of vectors, by p·s instead of p, not brought to unit length, along
    one permutation of the N' (m = N'), which may pair a negative with itself.

    Args:
        hardest: N', at most N-1
        synthetic: m (`released`: always N')
    """

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
    ) -> None:
        super().__init__(start_epoch, prior, iterations, samples, variant, true_component, estimator, per_batch, seed)
        in_range("hardest", hardest, 1)
        in_range("synthetic", synthetic, 1)
        self.hardest = hardest
        self.synthetic = synthetic
        self.register_buffer("pairs", torch.empty(2, 0, dtype=torch.long), persistent=False)
        self.lists: tuple[Tensor, ...] = ()
        self.ranked: object = None

    def ready(self) -> None:
        """Rank once (for a step's anchors: anew), then draw this step's pairs of ranks."""
        if self.ranked is None or self.ranked is not self.key:
            views = (0,) if self.released else (0, 1)
            room = len(views) * self.count * self.present.size(1) * self._narrow.itemsize <= self.memory
            self.lists = tuple(self._rank(view) for view in views) if room else ()
            self.ranked = self.key
        self.pairs = self._draw_pairs(self.count).to(self.present.device)

    @property
    def count(self) -> int:
        """N' in the present graph."""
        return min(self.hardest, self.present.size(1) - 1)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lists": (), "ranked": None}  # a copy ranks again

    def extra(self, block: Block) -> Tensor | None:
        """θ(u_i, ũ_k), [b, m]."""
        if not self.active:
            return None
        columns = self._columns(block.view, block.rows)
        strength = self._strength(block.view, block.rows, columns)
        first, second = (columns[:, ranks] for ranks in self.pairs)
        lean, rest = (strength[:, ranks] for ranks in self.pairs)
        alpha = torch.where(lean + rest > 0, lean / (lean + rest), 0.5)
        if self.released:
            return blend(block.sim[:, 0], first, second, alpha)
        return mixed_cosines(block.sim[:, 0], block.banks[0], first, second, alpha)

    def plan(self) -> Plan | None:
        """The lists, their p, and the pairs."""
        if not self.active:
            return Plan()
        ascending = self.anchors is None or bool((self.anchors.diff() > 0).all())
        if self.released or self.count < 2 or not self.lists or not ascending:
            return None
        return Plan(self.key, columns=self.lists, strength=self._strengths, pairs=self.pairs)

    def _columns(self, view: int, rows: Tensor) -> Tensor:
        """The hardest negatives of some anchors, [b, N'], in the order of their nodes: listed, or ranked now."""
        return self.lists[0 if self.released else view][:, rows].T.long() if self.lists else self._ranked(view, rows)

    def _ranked(self, view: int, rows: Tensor) -> Tensor:
        score = self.score(rows, view)
        score[torch.arange(len(rows), device=rows.device), rows] = -1  # below a true negative's 0
        columns = score.topk(self.count, dim=1, sorted=False).indices
        if self.anchors is None:  # marked and found again they are in order, which is faster than a sort
            marked = torch.zeros_like(score, dtype=torch.bool).scatter_(1, columns, True)
            return marked.nonzero()[:, 1].view_as(columns)
        return columns.gather(1, self.anchors[columns].argsort(dim=1))

    def _rank(self, view: int) -> Tensor:
        """The hardest negatives of all anchors, [N', N], in the order of their nodes."""
        nodes = self.present.size(1)
        columns = torch.empty(self.count, nodes, dtype=self._narrow, device=self.present.device)
        for part in blocks(nodes):
            rows = torch.arange(part.start, part.stop, device=self.present.device)
            columns[:, part] = self._ranked(view, rows).T.to(self._narrow)
        return columns

    @property
    def _narrow(self) -> torch.dtype:
        return torch.uint16 if self.present.size(1) <= 2**16 else torch.int32

    def _strength(self, view: int, rows: Tensor | slice, columns: Tensor) -> Tensor:
        """What `columns` [b, N'] are mixed by: p (`released`: p·s)."""
        s = self.frozen(rows, view).gather(1, columns)
        p = self.probability(s, view, rows, columns)
        return p * s if self.released else p

    def _strengths(self, view: int, rows: slice) -> Tensor:
        return self._strength(view, rows, self.lists[view][:, rows].T.long()).T.contiguous()

    def _draw_pairs(self, count: int) -> Tensor:
        if self.released:
            return torch.stack([torch.arange(count), torch.randperm(count, generator=self.generator)])
        return draw_pairs(count, self.synthetic, self.generator)
