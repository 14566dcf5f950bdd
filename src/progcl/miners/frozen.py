"""The probability that a negative is a true one, fitted at epoch E and frozen (Eq. 3-9 of the paper)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from progcl.errors import InputError, in_range
from progcl.miners.base import ELEMENTS, blocks
from progcl.miners.mixing import Seeded
from progcl.posteriors import make_posterior
from progcl.posteriors.base import PosteriorLike

MOST = 2**23  # similarities that a mixture of four parameters is fitted to, at the most
NEVER = -1


class FrozenPosterior(Seeded):
    """What both schemes share: at epoch E, fit a mixture to inter-view similarities and freeze p(true | s).

    Frozen is a snapshot of the two views' unit vectors, [2, N, d], from which any row of similarities of
    epoch E, and so of probabilities, can be computed again: nothing of size N x N is kept.

    `variant="paper"` follows Algorithm 1. s is Min-Max normalized by the range of epoch E's inter-view
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
        per_batch: a mixture for every batch (Algorithm 2), which needs the same in every epoch; else one for all
        seed: of the miner's own random numbers

    A loss that is called with batches of a larger graph collects the snapshot by node in epoch E, and mines from the
    first step of the next epoch on; `per_batch` mines at once. A node that epoch E did not meet is taken as it is when
    it is first met. The range of s is then that of the similarities drawn for the fit.

    Attributes:
        snapshot: unit vectors of both views at epoch E, [2, N, d]
        present: the part of it that belongs to the last step's anchors, whose rows the methods below count
    """

    snapshot: Tensor
    bounds: Tensor
    fitted: Tensor
    met: Tensor
    ranges: Tensor
    fits: Tensor

    def __init__(
        self,
        start_epoch: int = 400,
        prior: float = 0.05,
        iterations: int = 10,
        samples: int = 100,
        variant: Literal["paper", "released"] = "paper",
        true_component: Literal["mean", "weight"] = "mean",
        estimator: str | PosteriorLike = "beta",
        per_batch: bool = False,
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
        self.estimator = make_posterior(estimator, **options)
        self.per_batch = per_batch
        self.anchors: Tensor | None = None
        self.present = torch.empty(0)
        self.register_buffer("snapshot", torch.empty(0))
        self.register_buffer("bounds", torch.tensor([-1.0, 1.0], dtype=torch.float64))
        self.register_buffer("fitted", torch.empty(0, dtype=torch.float64))
        # In batches: when a node was met first (`per_batch`: in which batch), and what was fitted to each batch.
        self.register_buffer("met", torch.empty(0, dtype=torch.long))
        self.register_buffer("fits", torch.empty(0, 0, dtype=torch.float64))
        self.register_buffer("ranges", torch.empty(0, 2, dtype=torch.float64))

    @property
    def known(self) -> Tensor:
        """The nodes that the snapshot holds."""
        if self.met.numel():
            return (self.met != NEVER).nonzero().flatten()
        return torch.arange(self.snapshot.size(1), device=self.snapshot.device)

    @property
    def active(self) -> bool:
        """Whether the mixture is fitted and tells true from false negatives."""
        return self.fitted.numel() > 0 and not self.estimator.degenerate_

    @property
    def needs_all_nodes(self) -> bool:
        """Whether the mixture is to be fitted now."""
        return (self.epoch or 0) >= self.start_epoch and not self.fitted.numel()

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Fit the mixture in the first step of epoch E; take the anchors' part of the snapshot."""
        self.remind(self.start_epoch)
        if self.needs_all_nodes:
            self.snapshot = torch.stack([z1, z2]).detach().clone()
            self._fit(z1, z2)
        if not self.active:
            return
        if self.snapshot.shape[1:] != z1.shape:
            then, now = list(self.snapshot.shape[1:]), list(z1.shape)
            raise InputError(f"the mixture was fitted on embeddings {then}, the loss is called with {now}")
        self._take(anchors)

    def prepare_batch(self, z1: Tensor, z2: Tensor, nodes: Tensor) -> None:
        """Collect the snapshot, fit when it is complete, and take the batch's part of it."""
        at_once = self.fitted.numel() and not self.met.numel()  # `prepare` has seen all nodes
        if not at_once:
            self._collect(z1, z2, nodes)
        if self.active:
            self._take(nodes)

    def _collect(self, z1: Tensor, z2: Tensor, nodes: Tensor) -> None:
        self.remind(max(1, self.start_epoch))
        epoch = self.epoch or 0
        if epoch < self.start_epoch:
            return
        if self.per_batch:
            self._turn_to_batch(z1, z2, nodes)
        else:
            if not self.fitted.numel() and self.met.numel() and epoch > int(self.met.max()):
                self._fit(self.snapshot[0, self.known], self.snapshot[1, self.known], exact=False)
            self._remember(z1, z2, nodes, epoch)

    def _take(self, nodes: Tensor | None) -> None:
        self.anchors = nodes
        self.present = self.snapshot if nodes is None else self.snapshot[:, nodes]
        self.ready()

    def ready(self) -> None:
        """What else a step needs, once its part of the snapshot is taken."""

    def normalize(self, sim: Tensor) -> Tensor:
        """Cosines to [0, 1]."""
        low, high = self.bounds.tolist()
        return sim.sub(low).div_(high - low).clamp_(0, 1)

    def frozen(self, rows: Tensor | slice, view: int, columns: slice = slice(None)) -> Tensor:
        """Normalized inter-view similarities of epoch E, [b, N]."""
        view = 0 if self.released else view
        return self.normalize(self.present[view][rows] @ self.present[1 - view][columns].T)

    def probability(self, s: Tensor, view: int, rows: Tensor | slice, columns: Tensor | slice = slice(None)) -> Tensor:
        """p(true) of view's anchors `rows` [b] and candidates `columns` [n] or [b, n], with frozen similarities s."""
        nodes = torch.arange(self.present.size(1), device=s.device) if self.anchors is None else self.anchors
        anchors, others = nodes[rows].unsqueeze(1), nodes[columns]
        pairs = (anchors, others) if view == 0 or self.released else (others, anchors)
        return self.estimator.for_pairs(s, *pairs)

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

    def _fit(self, z1: Tensor, z2: Tensor, exact: bool = True) -> None:
        """Fit to a sample; the range of s is that of all similarities if `exact`, and else the sample's."""
        sample, low, high = self._similarities(z1, z2) if exact else self._drawn_similarities(z1, z2)
        if not self.released and high > low:
            self.bounds = torch.tensor([low, high], dtype=torch.float64)
        self.estimator.fit(self.normalize(sample.double()).cpu())
        self.fitted = self.estimator.to_tensor()

    def _similarities(self, own: Tensor, other: Tensor) -> tuple[Tensor, float, float]:
        """A sample of inter-view cosines, and the range of all that belong to negatives."""
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

    def _drawn_similarities(self, own: Tensor, other: Tensor) -> tuple[Tensor, float, float]:
        """The same for many nodes: nothing but the sample is computed, of at most MOST similarities."""
        nodes = len(own)
        samples = max(1, min(self.samples, MOST // nodes))
        sample = own.new_empty(nodes, samples)
        for rows in blocks(nodes, max(1, ELEMENTS // own[0].numel() // samples)):
            index = torch.arange(rows.start, rows.stop)[:, None]
            shift = torch.randint(1, nodes, (len(index), samples), generator=self.generator)
            columns = ((index + shift) % nodes).to(own.device)
            sample[rows] = torch.einsum("nd,nsd->ns", own[rows], other[columns])
        return sample, sample.min().item(), sample.max().item()

    def _remember(self, z1: Tensor, z2: Tensor, nodes: Tensor, mark: int) -> None:
        """Keep the vectors of nodes that are met for the first time."""
        room = int(nodes.max()) + 1 - len(self.met)
        if room > 0:
            more = max(room, len(self.met) // 2)
            self.met = torch.cat([self.met, self.met.new_full((more,), NEVER)])
            old = self.snapshot if self.snapshot.numel() else z1.new_empty(2, 0, z1.size(1))
            self.snapshot = torch.cat([old, z1.new_zeros(2, more, z1.size(1))], dim=1)
        new = self.met[nodes] == NEVER
        self.snapshot[:, nodes[new]] = torch.stack([z1[new], z2[new]])
        self.met[nodes[new]] = mark

    def _turn_to_batch(self, z1: Tensor, z2: Tensor, nodes: Tensor) -> None:
        """Take up what was fitted to a batch, or fit if it is new."""
        known = torch.full_like(nodes, NEVER)
        inside = nodes < len(self.met)
        known[inside] = self.met[nodes[inside]]
        number = len(self.fits)
        if bool((known == NEVER).all()):
            self._remember(z1, z2, nodes, number)
            self._fit(z1, z2)
            self.fits = torch.cat([self.fits.view(number, -1), self.fitted[None]] if number else [self.fitted[None]])
            self.ranges = torch.cat([self.ranges, self.bounds[None]])
            return
        number = int(known[0])
        if not bool((known == number).all()):
            hint = "keep batches and their order, or leave per_batch off"
            raise InputError("a mixture for every batch needs the same batches in every epoch", hint)
        self.fitted, self.bounds = self.fits[number].clone(), self.ranges[number].clone()
        self.estimator.from_tensor(self.fitted)

    def extra_repr(self) -> str:
        """What the miner is set to, and whether it is at work."""
        fitted = "on" if self.active else "given up" if self.fitted.numel() else "not fitted"
        return f"start_epoch={self.start_epoch}, variant={'released' if self.released else 'paper'}, {fitted}"

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("snapshot", "fitted", "met", "fits", "ranges"):  # sizes are known only after the fit
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name]))
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.anchors, self.present = None, self.snapshot
        if self.fitted.numel():
            self.estimator.from_tensor(self.fitted)
