"""The probability that a negative is a true one, fitted at epoch E and frozen (Eq. 3-9 of the paper)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from progcl.config.miners import ProGCLWeightOptions
from progcl.errors import InputError
from progcl.miners.base import Miner, remark_late_start
from progcl.miners.mixing import Seeded
from progcl.miners.similarities import sample_similarities, sample_similarities_only
from progcl.miners.snapshots import CollectedByNode, PerBatch, Snapshot, WholeGraph
from progcl.posteriors import make_posterior
from progcl.posteriors.base import PosteriorLike

COSINE_BOUNDS = (-1.0, 1.0)


class FrozenPosterior(Seeded):
    """Base of ProGCL's schemes: at epoch E, fit a mixture to inter-view similarities and freeze p(true | s).

    Xia et al., 2022, "ProGCL: Rethinking Hard Negative Mining in Graph Contrastive Learning".

    What is frozen is a snapshot of the two views' unit vectors, [2, N, d], from which any row of epoch E's
    similarities, and so of its probabilities, is recomputed: nothing of size N x N is kept.

    `variant="paper"` follows Algorithm 1. s is Min-Max normalized by the range of epoch E's inter-view
    negatives, M' negatives are drawn per anchor, and the second view's anchors use the transposed similarities.
    `variant="released"` does what the authors' code does: s = (cos+1)/2, one draw of M' columns for all
    anchors (positives included), the mixture's first component as the true one, p·s frozen instead of p,
    and the first view's probabilities for both views.

    Args:
        start_epoch: E; until then the loss is plain InfoNCE
        prior: w_init, initial weight of the false negatives' component
        iterations: I, steps of EM at most
        samples: M', similarities drawn per anchor
        variant: `paper` or `released`
        true_component: the true negatives' component has the smaller `mean` or the larger `weight`
        estimator: of p(true | s): beta, gaussian, random, tuned, or any object with `fit` and `predict_proba`
        per_batch: one mixture per batch (Algorithm 2), for batches that are the same in every epoch; else one for all
        seed: of the miner's own random numbers
        tol: EM stops once the mean log-likelihood changes by less; with 0, of beta mixtures once no parameter changes
        require_two_modes: keep plain InfoNCE where a second component adds next to nothing, which is not in the paper

    A loss that is called with batches of a larger graph collects the snapshot by node in epoch E, and mines from the
    first step of the next epoch on; `per_batch` mines at once. A node that epoch E did not contain is recorded when
    it first occurs. The range of s is then that of the similarities drawn for the fit.

    Attributes:
        anchors: nodes of the present step [n], None for all
        anchor_vectors: their rows of the snapshot, [2, n, d]; the methods below count these
        fit_row: the row of `source.fits` that holds for them, None before the fit
    """

    plan_covers = Miner.plan_covers | {"score", "normalize"}

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
        tol: float = 0.0,
        require_two_modes: bool = False,
    ) -> None:
        super().__init__(seed)
        ProGCLWeightOptions(  # raises if a value is out of range
            start_epoch=start_epoch, prior=prior, iterations=iterations, samples=samples, variant=variant, tol=tol
        )
        self.start_epoch = start_epoch
        self.samples = samples
        self.released = variant == "released"
        rule, min_beta = ("first", 1.01) if self.released else (true_component, None)
        steps = {"iterations": iterations, "tol": tol, "require_two_modes": require_two_modes}
        options = {"prior": prior, "true_component": rule, "min_beta": min_beta, "seed": seed, **steps}
        self.estimator = make_posterior(estimator, **options)
        self.per_batch = per_batch
        self.whole_graph = WholeGraph()
        self.batches = PerBatch() if per_batch else CollectedByNode()
        self.fit_row: int | None = None
        self.anchors: Tensor | None = None
        self.anchor_vectors = torch.empty(0)
        self.register_load_state_dict_post_hook(_restore_fit)  # type: ignore[no-untyped-call]

    @property
    def source(self) -> Snapshot:
        """The snapshot in use: the whole graph's if there is one, else the batches'."""
        return self.whole_graph if len(self.whole_graph.fits) else self.batches

    @property
    def snapshot(self) -> Tensor:
        """Unit vectors of both views at epoch E, [2, N, d]."""
        return self.source.vectors

    @property
    def known_nodes(self) -> Tensor:
        """Nodes whose vectors the snapshot holds."""
        return self.source.nodes

    @property
    def bounds(self) -> Tensor:
        """Cosines that Min-Max normalization maps to 0 and 1, [2]."""
        if self.fit_row is None:
            return torch.tensor(COSINE_BOUNDS, dtype=torch.float64)
        return self.source.fits[self.fit_row, :2]

    @property
    def fitted(self) -> Tensor:
        """The posterior's numbers (`Posterior.to_tensor`); empty before the fit."""
        return torch.empty(0, dtype=torch.float64) if self.fit_row is None else self.source.fits[self.fit_row, 2:]

    @property
    def is_fitted(self) -> bool:
        """Whether epoch E's mixture is fitted, be it degenerate or not."""
        return self.fit_row is not None

    @property
    def active(self) -> bool:
        """Whether the mixture is fitted and tells true from false negatives."""
        return self.is_fitted and not self.estimator.degenerate_

    @property
    def mines(self) -> bool:
        """Whether the mixture is fitted and tells true from false negatives."""
        return self.active

    @property
    def needs_all_nodes(self) -> bool:
        """Whether the mixture is to be fitted in this step."""
        return (self.epoch or 0) >= self.start_epoch and not self.is_fitted

    def facts(self) -> dict[str, Any]:
        """The fitted mixture in plain numbers, true negatives first; of one mixture per batch, how many there are."""
        return {"mixture": self.source.facts(self.estimator)} if self.is_fitted else {}

    def remarks(self, epochs: int, batched: bool) -> list[str]:
        """That the posterior uses labels, or that mining never starts."""
        labels = ["miner.estimator `oracle` trains with labels: for analysis only"]
        collects = batched and not self.per_batch
        return labels * self.estimator.uses_labels + remark_late_start(self.start_epoch, epochs, collects)

    def prepare(self, z1: Tensor, z2: Tensor, anchors: Tensor | None = None) -> None:
        """Fit the mixture in the first step of epoch E; select the anchors' rows of the snapshot.

        Raises:
            InputError: the shape of the embeddings is not that of epoch E
        """
        self.warn_without_epoch(self.start_epoch)
        if self.needs_all_nodes:
            self._use_fit(self.whole_graph.update(z1, z2, None, self.epoch or 0, self._fit))
        if not self.active:
            return
        if self.snapshot.shape[1:] != z1.shape:
            then, now = list(self.snapshot.shape[1:]), list(z1.shape)
            raise InputError(f"the mixture was fitted on embeddings {then}, the loss is called with {now}")
        self._select(anchors)

    def prepare_batch(self, z1: Tensor, z2: Tensor, nodes: Tensor) -> None:
        """Collect the snapshot, fit when it is complete, and select the batch's rows of it."""
        if self.source is not self.whole_graph:
            self.warn_without_epoch(max(1, self.start_epoch))
            epoch = self.epoch or 0
            if epoch >= self.start_epoch:
                self._use_fit(self.batches.update(z1, z2, nodes, epoch, self._fit))
        if self.active:
            self._select(nodes)

    def prepare_anchors(self) -> None:
        """Hook for what else a step needs, once `anchor_vectors` are selected."""

    def normalize(self, sim: Tensor) -> Tensor:
        """Min-Max normalization of cosines to [0, 1]."""
        return _normalize(sim, *self.bounds.tolist())

    def frozen_similarities(self, rows: Tensor | slice, view: int, columns: slice = slice(None)) -> Tensor:
        """Normalized inter-view similarities of epoch E, [b, N]."""
        view = 0 if self.released else view
        return self.normalize(self.anchor_vectors[view][rows] @ self.anchor_vectors[1 - view][columns].T)

    def probability(self, s: Tensor, view: int, rows: Tensor | slice, columns: Tensor | slice = slice(None)) -> Tensor:
        """p(true) of a view's anchors `rows` [b] and candidates `columns` [n] or [b, n], with frozen similarities s."""
        nodes = torch.arange(self.anchor_vectors.size(1), device=s.device) if self.anchors is None else self.anchors
        anchors, others = nodes[rows].unsqueeze(1), nodes[columns]
        pairs = (anchors, others) if view == 0 or self.released else (others, anchors)
        return self.estimator.for_pairs(s, *pairs)

    def score(self, rows: Tensor, view: int, sim: Tensor | None = None) -> Tensor:
        """p(true | s)·s, the numerator of Eq. 10, [b, N], 0 for the anchor itself.

        p is epoch E's; s is that of the cosines `sim` [b, N], or epoch E's if these are None.
        """
        s = self.frozen_similarities(rows, view)
        score = self.probability(s, view, rows) * (s if sim is None else self.normalize(sim))
        score[torch.arange(len(rows), device=rows.device), rows] = 0
        return score

    @property
    def key(self) -> object:
        """Identifies the frozen similarities of the anchors; None where they change with every step."""
        return self.snapshot if self.anchors is None else None

    def _fit(self, own: Tensor, other: Tensor, exact_range: bool) -> Tensor:
        """Fit to a sample of similarities of unit vectors [n, d]; the result is a row of `Snapshot.fits`."""
        if exact_range:
            sample = sample_similarities(own, other, self.samples, self.generator, shared_columns=self.released)
        else:
            sample = sample_similarities_only(own, other, self.samples, self.generator)
        bounds = (sample.low, sample.high) if sample.high > sample.low and not self.released else COSINE_BOUNDS
        self.estimator.fit(_normalize(sample.values.cpu().double(), *bounds))
        return torch.cat([torch.tensor(bounds, dtype=torch.float64), self.estimator.to_tensor()])

    def _use_fit(self, row: int | None) -> None:
        self.fit_row = row
        if row is not None:
            self.estimator.from_tensor(self.fitted)

    def _select(self, nodes: Tensor | None) -> None:
        self.anchors = nodes
        self.anchor_vectors = self.snapshot if nodes is None else self.snapshot[:, nodes]
        self.prepare_anchors()

    def extra_repr(self) -> str:
        """Options and whether the miner is at work."""
        state = "on" if self.active else "degenerate fit" if self.is_fitted else "not fitted"
        return f"start_epoch={self.start_epoch}, variant={'released' if self.released else 'paper'}, {state}"


def _normalize(sim: Tensor, low: float, high: float) -> Tensor:
    return sim.sub(low).div_(high - low).clamp_(0, 1)


def _restore_fit(miner: FrozenPosterior, _: object) -> None:
    """After a state is loaded: use its last fit, and drop what belongs to an earlier step."""
    fits = len(miner.source.fits)
    miner._use_fit(fits - 1 if fits else None)
    miner.anchors, miner.anchor_vectors = None, miner.snapshot
