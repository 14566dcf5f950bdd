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

from progcl.data.labels import labels_of, require_labels
from progcl.data.splits import Labels, Split, make_splits
from progcl.errors import InputError
from progcl.evaluation.scores import Score
from progcl.progress import bar
from progcl.registry import pick

Array = NDArray[np.float64]


SPARSE = 0.1  # share of entries below which a sparse product is the faster one
STRENGTHS = 10.0 ** np.arange(-1, 4.5, 0.5)  # C of the logistic regressions


def linear_probe(
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


def _unit_rows(embeddings: Tensor) -> Any:
    """Rows of length 1; of features that are mostly 0, as a sparse matrix."""
    rows = torch.nn.functional.normalize(embeddings.double(), dim=1).numpy()
    return csr_matrix(rows) if np.count_nonzero(rows) < SPARSE * rows.size else rows


def _path(x: Any, y: Labels, strengths: Array = STRENGTHS) -> list[LogisticRegression]:
    """A logistic regression for each C, from strong to weak regularization, each started at the one before."""
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
