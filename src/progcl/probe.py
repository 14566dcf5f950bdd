"""Linear evaluation of frozen embeddings under named protocols. Nothing is chosen on test labels.

========  ======  ========  ==========================================  ===========================
protocol  labels  features  classifier                                  choice on
========  ======  ========  ==========================================  ===========================
clean     10 %    row-ℓ2    ℓ2 logistic regression                      C, on 10 % more
gca       10 %    raw       linear layer, Adam 0.01, 3000 steps, no ℓ2  step, on 10 % more
bgrl      20 %    row-ℓ2    ℓ2 logistic regression                      C, by 5-fold CV in the 20 %
========  ======  ========  ==========================================  ===========================

All test on the other 80 %, over random splits or the data's public ones (WikiCS). Settings that were chosen with labels
are chosen on a fifth of the nodes (`nodes="tuning"`) and reported on the `rest`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch_geometric.data import Data

from progcl.data import held_out
from progcl.errors import InputError
from progcl.progress import bar
from progcl.registry import pick

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
SPARSE = 0.1  # share of entries below which a sparse product is the faster one
OTHERS = 100  # nodes outside the largest class, so that a tenth of the nodes is sure to have some
STRENGTHS = 10.0 ** np.arange(-1, 4.5, 0.5)  # C of the logistic regressions


@dataclass(frozen=True)
class Split:
    """Disjoint node indices."""

    train: Labels
    validation: Labels
    test: Labels


@dataclass(frozen=True)
class Score:
    """Test accuracies in percent, one a split."""

    protocol: str
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the splits."""
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float:
        """Standard deviation over the splits."""
        return float(np.std(self.accuracies))

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


def make_splits(data: Data, number: int = 20, seed: int = 0, nodes: str = "all") -> list[Split]:
    """10 % of `nodes` to train, 10 % to validate, the rest to test; public splits where the data has several.

    With `heldout` nodes, the one split of `held_out`.
    """
    masks = data.get("train_mask")
    if nodes == "heldout":
        return [Split(*(part.numpy() for part in held_out(data)))]
    if masks is not None and masks.dim() == 2:
        if nodes != "all":
            raise InputError(f"public splits cover all nodes, not `{nodes}`", "set `nodes` to all")
        return [_public(data, index) for index in range(min(number, masks.size(1)))]
    taken = choose_nodes(int(data.num_nodes), nodes)
    if len(taken) < 10:
        raise InputError(f"a probe needs at least 10 nodes (got {len(taken)})", "set --probe.protocol none")
    tenth = len(taken) // 10
    orders = [taken[np.random.default_rng([seed, index]).permutation(len(taken))] for index in range(number)]
    return [Split(order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]) for order in orders]


def choose_nodes(number: int, which: str) -> Labels:
    """`all` nodes; `tuning`, a fifth that is always the same, to choose settings on; or the `rest`, to report on."""
    order = np.random.default_rng(number).permutation(number)
    parts = {"all": np.arange(number), "tuning": order[: number // 5], "rest": order[number // 5 :]}
    return pick(parts, which, "part of the nodes")


def probe(
    embeddings: Tensor,
    data: Data,
    protocol: str = "clean",
    splits: int = 20,
    seed: int = 0,
    nodes: str = "all",
    progress: bool = False,
    seconds: float = math.inf,
) -> Score:
    """Score embeddings [N, d] by how well a linear classifier reads the labels off them.

    After so many `seconds` no further split is begun.
    """
    evaluate = pick(PROTOCOLS, protocol, "protocol")
    require_labels(data)
    if len(embeddings) != data.num_nodes:
        raise InputError(f"{len(embeddings)} embeddings do not belong to a graph of {data.num_nodes} nodes")
    if not embeddings.isfinite().all():
        raise InputError("the embeddings are not finite", "training has diverged: try a smaller --train.lr")
    labels = labels_of(data)
    made = bar(progress, iterable=make_splits(data, splits, seed, nodes), desc=f"probe ({protocol})", leave=False)
    made = _within(made, seconds)
    try:
        return Score(protocol, tuple(100 * right for right in evaluate(embeddings.cpu(), labels, made)))
    except ValueError as error:  # scikit-learn's word on too few nodes or classes
        hint = "a small graph? set --probe.protocol none"
        raise InputError(f"the labels of a split are too few to fit a classifier: {error}", hint) from None


def _within(splits: Iterable[Split], seconds: float) -> Iterator[Split]:
    """The first split, and others while the time lasts."""
    end = time.monotonic() + seconds
    for number, split in enumerate(splits):
        if number and time.monotonic() >= end:
            return
        yield split


def require_labels(data: Data) -> None:
    """Raise `InputError` where there is nothing to probe with."""
    if data.get("y") is None:
        raise InputError("the data has no labels to probe with", "set --probe.protocol none")


def too_few(data: Data) -> str | None:
    """Why a graph's labels cannot be relied on to make splits; empty if they can, None if there are no labels."""
    if data.get("y") is None:
        return None
    others, classes = len(data.y) - int(torch.bincount(data.y).max()), len(data.y.unique())
    if 10 * classes > len(data.y):
        return f"{classes} classes of {len(data.y)} nodes: too many to score the embedding"
    return f"{others} nodes outside the largest class: too few to score the embedding" if others < OTHERS else ""


def labels_of(data: Data) -> Labels:
    """The classes of all nodes, [N]."""
    labels: Labels = data.y.cpu().numpy()
    return labels


def clean(embeddings: Tensor, labels: Labels, splits: Iterable[Split]) -> list[float]:
    """ℓ2 logistic regression on unit rows; C chosen on the validation nodes."""
    x = _unit_rows(embeddings)
    scores = []
    for split in splits:
        models = _path(x[split.train], labels[split.train])
        best = max(models, key=lambda model: float(model.score(x[split.validation], labels[split.validation])))
        scores.append(float(best.score(x[split.test], labels[split.test])))
    return scores


def bgrl(embeddings: Tensor, labels: Labels, splits: Iterable[Split]) -> list[float]:
    """ℓ2 logistic regression on unit rows; C by cross-validation in training and validation nodes, then refitted."""
    x = _unit_rows(embeddings)
    scores = []
    for split in splits:
        known = np.concatenate([split.train, split.validation])
        right = np.zeros(len(STRENGTHS))
        for inner, outer in KFold(5, shuffle=True, random_state=0).split(known):
            models = _path(x[known[inner]], labels[known[inner]])
            right += [model.score(x[known[outer]], labels[known[outer]]) for model in models]
        best = _path(x[known], labels[known], STRENGTHS[: int(right.argmax()) + 1])[-1]
        scores.append(float(best.score(x[split.test], labels[split.test])))
    return scores


def gca(embeddings: Tensor, labels: Labels, splits: Iterable[Split], steps: int = 3000) -> list[float]:
    """One linear layer on the embeddings as they are; the step is chosen on the validation nodes, every 20 steps."""
    x, y = embeddings.float(), torch.from_numpy(labels)
    scores = []
    for split in splits:
        train, validation, test = (torch.from_numpy(part) for part in (split.train, split.validation, split.test))
        weight, bias = (
            torch.empty(int(y.max()) + 1, x.size(1)),
            torch.zeros(int(y.max()) + 1, requires_grad=True),
        )
        torch.nn.init.xavier_uniform_(weight, generator=torch.Generator().manual_seed(0)).requires_grad_()
        optimizer = torch.optim.Adam([weight, bias], lr=0.01)
        x_train, y_train, best = x[train], y[train], (-1.0, 0.0)
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(x_train @ weight.T + bias, y_train).backward()
            optimizer.step()
            if step % 20 == 0:
                with torch.no_grad():
                    right = (x @ weight.T + bias).argmax(dim=1) == y
                seen = float(right[validation].float().mean())
                if seen > best[0]:
                    best = (seen, float(right[test].float().mean()))
        scores.append(best[1])
    return scores


PROTOCOLS: dict[str, Callable[[Tensor, Labels, Iterable[Split]], list[float]]] = {
    "clean": clean,
    "gca": gca,
    "bgrl": bgrl,
}


def _public(data: Data, index: int) -> Split:
    train, validation = (data[name][:, index].nonzero().flatten().numpy() for name in ("train_mask", "val_mask"))
    test = data.test_mask if data.test_mask.dim() == 1 else data.test_mask[:, index]
    return Split(train, validation, test.nonzero().flatten().numpy())


def _unit_rows(embeddings: Tensor) -> Any:
    """Rows of length 1; of features that are mostly 0, as a sparse matrix."""
    rows = torch.nn.functional.normalize(embeddings.double(), dim=1).numpy()
    return csr_matrix(rows) if np.count_nonzero(rows) < SPARSE * rows.size else rows


def _path(x: Any, y: Labels, strengths: Array = STRENGTHS) -> list[LogisticRegression]:
    """A logistic regression for each C, from strong to weak regularisation, each started at the one before."""
    models: list[LogisticRegression] = []
    for strength in strengths:
        model = LogisticRegression(C=strength, max_iter=5000, tol=1e-5, warm_start=True)
        if models:
            model.coef_, model.intercept_, model.classes_ = (
                models[-1].coef_,
                models[-1].intercept_,
                models[-1].classes_,
            )
        with threadpool_limits(1, user_api="blas"):  # threads cost more than they save here (`progcl bench probe`)
            models.append(model.fit(x, y))
    return models
