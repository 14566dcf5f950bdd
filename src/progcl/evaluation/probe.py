"""Linear evaluation of frozen embeddings under named protocols. Nothing is chosen on test labels.

========  ======  ========  ==========================================  ===========================
protocol  labels  features  classifier                                  model selection
========  ======  ========  ==========================================  ===========================
clean     10 %    row-ℓ2    ℓ2 logistic regression                      C, on 10 % more
gca       10 %    raw       linear layer, Adam 0.01, 3000 steps, no ℓ2  step, on 10 % more
bgrl      20 %    row-ℓ2    ℓ2 logistic regression                      C, by 5-fold CV in the 20 %
========  ======  ========  ==========================================  ===========================

C grows until two values in a row lose more than a standard error of the best accuracy, and the first of the best is
taken. All test on the other 80 % of the nodes with labels, over random splits or the data's public ones (WikiCS).
Settings that were chosen with labels are chosen on a fifth of the nodes (`nodes="tuning"`) and reported on the `rest`.

`gca` follows the evaluation of Zhu et al., Graph Contrastive Learning with Adaptive Augmentation (2021), without its
choice of the step on test labels; `bgrl` that of Thakoor et al., Large-Scale Representation Learning on Graphs via
Bootstrapping (2022).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import KFold
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from torch_geometric.data import Data

from progcl.data.labels import Labels, labels_of, require_labels
from progcl.data.rows import all_finite, is_sparse, unit_rows
from progcl.data.splits import Split, make_splits
from progcl.errors import InputError
from progcl.evaluation.logistic import LogisticRegressions, Model, Nodes, choose_best
from progcl.evaluation.scores import Score
from progcl.progress import bar
from progcl.registry import pick

SPARSE_DENSITY = 0.1  # share of nonzero entries below which sparse products are faster
C_GRID = 10.0 ** np.arange(-1, 4.5, 0.5)  # of the logistic regressions, from strong to weak regularization
ROWS_PER_CHUNK = 2**11  # in double precision at once
GCA_STEPS, GCA_EVAL_EVERY = 3000, 20


class SplitScore(NamedTuple):
    """Scores on the test nodes of one split, from 0 to 1; ROC-AUC is NaN unless there are two classes."""

    accuracy: float
    macro_f1: float
    roc_auc: float


def linear_probe(
    embeddings: Tensor,
    data: Data,
    protocol: str = "clean",
    splits: int = 20,
    seed: int = 0,
    nodes: str = "all",
    progress: bool = False,
    seconds: float = math.inf,
    on_split: Callable[[Score], object] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Score:
    """Score embeddings by the test accuracy of a linear classifier.

    Args:
        embeddings: [N, d]
        data: the graph, with labels
        protocol: `clean`, `gca` or `bgrl`
        splits: number of random splits; data with public splits has its own
        seed: of the random splits
        nodes: `all`, `tuning` (a fifth, to choose settings on), `rest` (to report on) or `heldout` (one fixed split)
        progress: show a progress bar on stderr
        seconds: time limit: no split is begun that would end after it if it took as long as the one before; the first
            always runs
        on_split: called after every split with the score of those so far
        clock: tells the time in seconds

    Raises:
        InputError: no labels, not one finite row per node, or a split with too few labels to fit a classifier
    """
    probe = pick(PROTOCOLS, protocol, "protocol")
    require_labels(data)
    if len(embeddings) != data.num_nodes:
        raise InputError(f"{len(embeddings)} embeddings do not belong to a graph of {data.num_nodes} nodes")
    if not all_finite(embeddings):
        raise InputError("the embeddings are not finite", "training has diverged: try a smaller --train.lr")
    labels, scores, deadline = labels_of(data), [], clock() + seconds
    remaining = bar(progress, iterable=make_splits(data, splits, seed, nodes), desc=f"probe ({protocol})", leave=False)
    try:
        for score in probe(embeddings.cpu(), labels, _limit_time(remaining, deadline, clock)):
            scores.append(score)
            if on_split:
                on_split(_summarize(protocol, scores, labels))
    except ValueError as error:  # scikit-learn's message on too few nodes or classes
        hint = "a small graph? set --probe.protocol none"
        raise InputError(f"the labels of a split are too few to fit a classifier: {error}", hint) from None
    return _summarize(protocol, scores, labels)


def _summarize(protocol: str, scores: list[SplitScore], labels: Labels) -> Score:
    """Scores of splits in percent, beside what is known of the labels [N]."""
    accuracies, macro_f1, roc_auc = (tuple(100 * value for value in column) for column in zip(*scores, strict=True))
    known = labels[labels >= 0]
    majority = 100 * float(np.bincount(known).max() / len(known))
    return Score(protocol, accuracies, macro_f1, () if np.isnan(roc_auc).any() else roc_auc, majority, len(known))


def score_split(labels: Labels, predicted: Labels, margin: Any = None) -> SplitScore:
    """Scores of predicted classes [n]; `margin` [n] grows with the second of two classes."""
    accuracy = float((labels == predicted).mean())
    macro_f1 = float(f1_score(labels, predicted, average="macro", zero_division=0))
    has_auc = margin is not None and len(np.unique(labels)) == 2
    return SplitScore(accuracy, macro_f1, float(roc_auc_score(labels, margin)) if has_auc else math.nan)


def _limit_time(splits: Iterable[Split], deadline: float, clock: Callable[[], float]) -> Iterator[Split]:
    """Yield the first split, and further ones while another as long as the last would end before the deadline."""
    last = 0.0
    for index, split in enumerate(splits):
        if index and clock() + last >= deadline:
            return
        began = clock()
        yield split
        last = clock() - began


def probe_clean(embeddings: Tensor, labels: Labels, splits: Iterable[Split]) -> Iterator[SplitScore]:
    """Test scores of ℓ2 logistic regression on unit rows; C is chosen on the validation nodes."""
    regressions = LogisticRegressions(_normalize_rows(embeddings))
    for split in splits:
        _, (best,) = _search(regressions, labels, [(split.train, split.validation)])
        yield _test(best, split.test, labels)


def probe_bgrl(embeddings: Tensor, labels: Labels, splits: Iterable[Split]) -> Iterator[SplitScore]:
    """Test scores of ℓ2 logistic regression on unit rows; C by cross-validation in train + validation, refitted."""
    regressions = LogisticRegressions(_normalize_rows(embeddings))
    for split in splits:
        labeled = np.concatenate([split.train, split.validation])
        folds = KFold(5, shuffle=True, random_state=0).split(labeled)
        index, _ = _search(regressions, labels, [(labeled[inner], labeled[outer]) for inner, outer in folds])
        *_, best = regressions.fit(labeled, labels[labeled], C_GRID[: index + 1])
        yield _test(best, split.test, labels)


def _search(
    regressions: LogisticRegressions, labels: Labels, folds: list[tuple[Nodes, Nodes]]
) -> tuple[int, tuple[Model, ...]]:
    """Index of the best C, and the models of it, fitted on the first and scored on the second nodes of each fold."""
    paths = (regressions.fit(train, labels[train], C_GRID) for train, _ in folds)
    validation = [nodes for _, nodes in folds]

    def accuracy(models: tuple[Model, ...]) -> float:
        hits = [model.predict(nodes) == labels[nodes] for model, nodes in zip(models, validation, strict=True)]
        return float(np.mean([each.mean() for each in hits]))

    return choose_best(zip(*paths, strict=True), accuracy, sum(map(len, validation)))


def probe_gca(
    embeddings: Tensor, labels: Labels, splits: Iterable[Split], steps: int = GCA_STEPS
) -> Iterator[SplitScore]:
    """Test scores of a linear layer on raw rows, at the step with the best validation accuracy."""
    x, y = embeddings.to_dense().float(), torch.from_numpy(labels)
    for split in splits:
        train, validation, test = map(torch.from_numpy, (split.train, split.validation, split.test))
        classes = int(y.max()) + 1
        weight, bias = torch.empty(classes, x.size(1)), torch.zeros(classes, requires_grad=True)
        torch.nn.init.xavier_uniform_(weight, generator=torch.Generator().manual_seed(0)).requires_grad_()
        optimizer = torch.optim.Adam([weight, bias], lr=0.01)
        x_train, y_train = x[train], y[train]
        best_validation, best_logits = -1.0, torch.empty(0)
        for step in range(1, steps + 1):
            optimizer.zero_grad()
            cross_entropy(x_train @ weight.T + bias, y_train).backward()
            optimizer.step()
            if step % GCA_EVAL_EVERY == 0:
                with torch.no_grad():
                    logits = x @ weight.T + bias
                accuracy = float((logits[validation].argmax(dim=1) == y[validation]).float().mean())
                if accuracy > best_validation:
                    best_validation, best_logits = accuracy, logits[test]
        margin = (best_logits[:, 1] - best_logits[:, 0]).numpy() if classes == 2 else None
        yield score_split(labels[split.test], best_logits.argmax(dim=1).numpy(), margin)


PROTOCOLS: dict[str, Callable[[Tensor, Labels, Iterable[Split]], Iterator[SplitScore]]] = {
    "clean": probe_clean,
    "gca": probe_gca,
    "bgrl": probe_bgrl,
}


def _normalize_rows(embeddings: Tensor) -> Any:
    """Unit rows [N, d]; a CSR matrix if most entries are zero."""
    if is_sparse(embeddings):
        return unit_rows(embeddings)
    rows = np.empty(embeddings.shape, np.float32)
    for start in range(0, len(rows), ROWS_PER_CHUNK):
        part = slice(start, start + ROWS_PER_CHUNK)
        rows[part] = normalize(embeddings[part].double(), dim=1).numpy()
    return csr_matrix(rows) if np.count_nonzero(rows) < SPARSE_DENSITY * rows.size else rows


def _test(model: Model, nodes: Nodes, labels: Labels) -> SplitScore:
    logits = model.logits(nodes)
    margin = logits[:, 1] - logits[:, 0] if len(model.classes) == 2 else None
    return score_split(labels[nodes], model.classes[logits.argmax(axis=1)], margin)
