"""ProGCL's two ways to use the probability that a negative is a true one (Eq. 10-16 of the paper)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from progcl.contrast import Block, blocks
from progcl.errors import InputError, in_range
from progcl.estimators import FitsAndPredicts
from progcl.miners.mixing import Seeded, blend, draw_pairs, mixed_cosines
from progcl.mixtures import make_estimator
from progcl.tiles import Plan


class ProGCL(Seeded):
    """What both schemes share: at epoch E, fit a mixture to inter-view similarities and freeze p(true | s).

    Frozen is a snapshot of the two views' unit vectors, [2, N, d], from which any row of similarities of
    epoch E, and so of probabilities, can be computed again: nothing of size N x N is kept.

    `variant="paper"` follows Algorithm 1. s is Min-Max normalised by the range of epoch E's inter-view
    negatives, M' negatives are drawn per anchor, and the second view's anchors use the transposed similarities.
    `variant="released"` does what the authors' code does: s = (cos+1)/2, one draw of M' columns for all
    anchors (positives included), the mixture's first component as the true one, p·s frozen instead of p,
    and the first view's probabilities for both views.

    Args:
        start_epoch: E; until then the loss is plain InfoNCE
        prior: w_init, initial weight of the false negatives' component
        iterations: I, steps of EM
        samples: M', similarities drawn per anchor
        variant: `paper` or `released`
        true_component: the true negatives' component has the smaller `mean` or the larger `weight`
        estimator: of p(true | s): beta, gaussian, random, tuned, or anything with `fit` and `predict_proba`
        seed: of the miner's own random numbers

    Attributes:
        snapshot: unit vectors of both views at epoch E, [2, N, d]
        present: the part of it that belongs to the last step's anchors, whose rows the methods below count
    """

    snapshot: Tensor
    bounds: Tensor
    fitted: Tensor

    def __init__(
        self,
        start_epoch: int = 400,
        prior: float = 0.05,
        iterations: int = 10,
        samples: int = 100,
        variant: Literal["paper", "released"] = "paper",
        true_component: Literal["mean", "weight"] = "mean",
        estimator: str | FitsAndPredicts = "beta",
        seed: int = 0,
    ) -> None:
        super().__init__(seed)
        in_range("start_epoch", start_epoch, 0)
        in_range("samples", samples, 1)
        if variant not in ("paper", "released"):
            raise InputError(f"unknown variant `{variant}`", "known: paper, released")
        self.start_epoch = start_epoch
        self.samples = samples
        self.released = variant == "released"
        rule, min_beta = ("first", 1.01) if self.released else (true_component, None)
        options = {"prior": prior, "iterations": iterations, "true_component": rule, "min_beta": min_beta, "seed": seed}
        self.estimator = make_estimator(estimator, **options)
        self.anchors: Tensor | None = None
        self.present = torch.empty(0)
        self.register_buffer("snapshot", torch.empty(0))
        self.register_buffer("bounds", torch.tensor([-1.0, 1.0], dtype=torch.float64))
        self.register_buffer("fitted", torch.empty(0, dtype=torch.float64))

    @property
    def active(self) -> bool:
        """Whether the mixture is fitted and tells true from false negatives."""
        return self.fitted.numel() > 0 and not self.estimator.degenerate_

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Fit the mixture in the first step of epoch E; take the anchors' part of the snapshot."""
        self.remind(self.start_epoch)
        if (self.epoch or 0) >= self.start_epoch and not self.fitted.numel():
            self._fit(z1, z2)
        if not self.active:
            return
        if self.snapshot.shape[1:] != z1.shape:
            then, now = list(self.snapshot.shape[1:]), list(z1.shape)
            raise InputError(f"the mixture was fitted on embeddings {then}, the loss is called with {now}")
        self.anchors = anchors
        self.present = self.snapshot if anchors is None else self.snapshot[:, anchors]

    def normalize(self, sim: Tensor) -> Tensor:
        """Cosines to [0, 1]."""
        low, high = self.bounds.tolist()
        return sim.sub(low).div_(high - low).clamp_(0, 1)

    def frozen(self, rows: Tensor | slice, view: int, columns: slice = slice(None)) -> Tensor:
        """Normalised inter-view similarities of epoch E, [b, N]."""
        view = 0 if self.released else view
        return self.normalize(self.present[view][rows] @ self.present[1 - view][columns].T)

    def probability(self, s: Tensor, view: int, rows: Tensor | slice, columns: Tensor | slice = slice(None)) -> Tensor:
        """p(true) of view's anchors `rows` [b] and candidates `columns` [n] or [b, n], with frozen similarities s."""
        nodes = torch.arange(self.present.size(1), device=s.device) if self.anchors is None else self.anchors
        anchors, others = nodes[rows].unsqueeze(1), nodes[columns]
        pairs = (anchors, others) if view == 0 or self.released else (others, anchors)
        return self.estimator.of_pairs(s, *pairs)

    def score(self, rows: Tensor, view: int, sim: Tensor | None = None) -> Tensor:
        """p(true | s)·s, the numerator of Eq. 10, [b, N], 0 for the anchor itself.

        p is epoch E's; s is taken from the cosines `sim` if they are given, and is epoch E's if not.
        """
        s = self.frozen(rows, view)
        score = self.probability(s, view, rows) * (s if sim is None else self.normalize(sim))
        score[torch.arange(len(rows), device=rows.device), rows] = 0
        return score

    @property
    def key(self) -> object:
        """What stands for the frozen similarities of the present anchors, as long as they stay the same."""
        return self.snapshot if self.anchors is None else None

    def _fit(self, z1: Tensor, z2: Tensor) -> None:
        self.snapshot = torch.stack([z1, z2]).detach().clone()
        sample, low, high = self._similarities()
        if not self.released and high > low:
            self.bounds = torch.tensor([low, high], dtype=torch.float64)
        self.estimator.fit(self.normalize(sample.double()).cpu())
        self.fitted = self.estimator.to_tensor()

    def _similarities(self) -> tuple[Tensor, float, float]:
        """A sample of the snapshot's inter-view cosines, and the range of all that belong to negatives."""
        own, other = self.snapshot
        nodes, device = len(own), own.device
        shift = torch.randint(1, nodes, (nodes, self.samples), generator=self.generator)
        columns = torch.randint(0, nodes, (self.samples,), generator=self.generator).to(device)
        # Buffers are made once: small tensors that stay between large ones that go would leave holes in memory.
        sample, buffer = own.new_empty(nodes, self.samples), own.new_empty(0)
        low, high = torch.inf, -torch.inf
        for rows in blocks(nodes):
            sim = torch.mm(own[rows], other.T, out=buffer.resize_(rows.stop - rows.start, nodes))
            index = torch.arange(rows.start, rows.stop, device=device)
            if self.released:
                sample[rows] = sim[:, columns]
            else:
                sample[rows] = sim.gather(1, (index[:, None] + shift[rows].to(device)) % nodes)
            here = torch.arange(len(sim), device=device)
            sim[here, index] = sim[here, (index + 1) % nodes]  # the positive is not a negative
            low, high = min(low, sim.min().item()), max(high, sim.max().item())
        return sample, low, high

    def extra_repr(self) -> str:
        """What the miner is set to, and whether it is at work."""
        fitted = "on" if self.active else "given up" if self.fitted.numel() else "not fitted"
        return f"start_epoch={self.start_epoch}, variant={'released' if self.released else 'paper'}, {fitted}"

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("snapshot", "fitted"):  # sizes are known only after the fit
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name]))
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.anchors, self.present = None, self.snapshot
        if self.fitted.numel():
            self.estimator.from_tensor(self.fitted)


class ProGCLWeight(ProGCL):
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


class ProGCLMix(ProGCL):
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
        estimator: str | FitsAndPredicts = "beta",
        seed: int = 0,
    ) -> None:
        super().__init__(start_epoch, prior, iterations, samples, variant, true_component, estimator, seed)
        in_range("hardest", hardest, 1)
        in_range("synthetic", synthetic, 1)
        self.hardest = hardest
        self.synthetic = synthetic
        self.register_buffer("pairs", torch.empty(2, 0, dtype=torch.long), persistent=False)
        self.lists: tuple[Tensor, ...] = ()
        self.ranked: object = None

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Fit and rank once (for a step's anchors: anew), then draw this step's pairs of ranks."""
        super().prepare(z1, z2, anchors)
        if not self.active:
            return
        if self.ranked is None or self.ranked is not self.key:
            views = (0,) if self.released else (0, 1)
            room = len(views) * self.count * self.present.size(1) * self._narrow.itemsize <= self.memory
            self.lists = tuple(self._rank(view) for view in views) if room else ()
            self.ranked = self.key
        self.pairs = self._draw_pairs(self.count).to(z1.device)

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
        columns = score.topk(self.count, dim=1).indices
        if self.anchors is None:
            return columns.sort(dim=1).values
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
