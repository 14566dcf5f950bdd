"""ℓ2 logistic regression for a grid of C, several times faster than a general solver on the same problem.

The minimum of

    C Σ_i -log softmax(W x_i + b)[y_i] + ½ ‖W‖²

does not change when x is centered (b is free) or rotated (‖W‖ stays), so x is taken along its principal axes. The
Hessian, divided by C n, is then near a diagonal, κ λ_j + 1 / (C n) for an axis of variance λ_j, with κ the mean of
p (1 - p): L-BFGS in units of its root needs few steps. Two classes have one vector of coefficients, as in scikit-learn,
whose minimum is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import issparse
from threadpoolctl import threadpool_limits

from progcl.data.labels import Labels

Array = NDArray[np.floating[Any]]
Nodes = NDArray[np.int64]
Candidate = TypeVar("Candidate")

TOLERANCE = 3e-4  # of the scaled gradient: smaller ones change accuracies by less than 0.1 (`progcl bench probe`)
MAX_STEPS = 500  # for each C
SAMPLE = 4096  # rows that the axes are found from: they are a choice of coordinates, not part of the result
ROWS_PER_CHUNK = 2**13  # that are copied at once to classify them
WIDEST = 2048  # columns past which finding the axes costs more than it saves
MIN_CURVATURE = 1e-6  # where all training nodes are fitted, p (1 - p) vanishes


@dataclass(frozen=True)
class Model:
    """A linear classifier of the rows x [N, d]: classes [K], weight [d, K], bias [K]."""

    x: Any
    classes: Labels
    weight: Array
    bias: Array

    def logits(self, nodes: Nodes) -> Array:
        """Of some nodes [n], by class [n, K]."""
        parts = (nodes[start : start + ROWS_PER_CHUNK] for start in range(0, max(1, len(nodes)), ROWS_PER_CHUNK))
        return np.concatenate([self.x[part] @ self.weight + self.bias for part in parts])

    def predict(self, nodes: Nodes) -> Labels:
        """Classes [n] of some nodes [n]."""
        predicted: Labels = self.classes[self.logits(nodes).argmax(axis=1)]
        return predicted


class LogisticRegressions:
    """Logistic regressions on rows x [N, d] of float32, dense or CSR.

    Only coordinates are found from all rows, once; a model sees the rows that it is fitted to.
    """

    def __init__(self, x: Any) -> None:
        self.x = x
        self.axes: Array | None = None
        self.mean: Array = np.zeros(x.shape[1], np.float32)
        sample = x[:: max(1, x.shape[0] // SAMPLE)]
        if issparse(x) or x.shape[1] > WIDEST:  # units alone: centered or rotated rows would be dense
            square = sample.multiply(sample) if issparse(x) else sample * sample
            variance = np.asarray(square.mean(axis=0)).ravel()
        else:
            self.mean = sample.mean(axis=0)
            centered = sample - self.mean
            with threadpool_limits(1, user_api="blas"):
                variance, self.axes = np.linalg.eigh(centered.T @ centered / len(centered))
        self.variance = variance.clip(min=0.0)

    def fit(self, nodes: Nodes, labels: Labels, grid: Iterable[float]) -> Iterator[Model]:
        """A model of some nodes [n] and their labels [n] for each C; each fit starts at the one before.

        Raises:
            ValueError: all labels are of one class
        """
        classes, targets = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"all {len(labels)} labels are of one class")
        rows = self.x[nodes] if self.axes is None else (self.x[nodes] - self.mean) @ self.axes
        problem = _Problem(rows, np.eye(len(classes), dtype=np.float32)[targets])
        point: Array = np.zeros((len(self.mean) + 1, len(classes)))
        curvature = (1 - 1 / len(classes)) / len(classes)
        for strength in grid:
            penalty = (1 if len(classes) > 2 else 2) / (strength * len(labels))
            units = np.append(1 / np.sqrt(penalty + curvature * self.variance), curvature**-0.5)
            point = problem.solve(point, penalty, units[:, None])
            chances = problem.chances(point)
            curvature = max(float((chances * (1 - chances)).mean()), MIN_CURVATURE)
            weight = point[:-1] if self.axes is None else self.axes @ point[:-1]
            bias = point[-1] - self.mean @ weight
            yield Model(self.x, classes, weight.astype(np.float32), bias.astype(np.float32))


@dataclass(frozen=True)
class _Problem:
    """Rows [n, d] with their classes [n, K], one-hot; a point [d + 1, K] is a weight and, last, a bias."""

    rows: Any
    targets: Array

    def chances(self, point: Array) -> Array:
        """Of each class [n, K]."""
        exponentials = np.exp(self._shifted(point))
        chances: Array = exponentials / exponentials.sum(axis=1, keepdims=True)
        return chances

    def solve(self, start: Array, penalty: float, units: Array) -> Array:
        """The minimum of mean cross-entropy + ½ penalty ‖W‖², in coordinates point / units [d + 1, 1]."""

        def value_and_gradient(coordinates: Array) -> tuple[float, Array]:
            point = coordinates.reshape(start.shape) * units
            shifted = self._shifted(point)
            exponentials = np.exp(shifted)
            total = exponentials.sum(axis=1, keepdims=True)
            entropy = np.log(total).mean(dtype=float) - (shifted * self.targets).sum(dtype=float) / len(total)
            error = (exponentials / total - self.targets) / len(total)
            gradient = np.vstack([self.rows.T @ error, error.sum(axis=0)]).astype(float)
            gradient[:-1] += penalty * point[:-1]
            return entropy + penalty / 2 * (point[:-1] ** 2).sum(), (gradient * units).ravel()

        options = {"maxiter": MAX_STEPS, "gtol": TOLERANCE, "ftol": 0.0}
        with threadpool_limits(1, user_api="blas"):  # threads cost more than they save here (`progcl bench probe`)
            found = minimize(value_and_gradient, (start / units).ravel(), jac=True, method="L-BFGS-B", options=options)
        point: Array = found.x.reshape(start.shape) * units
        return point

    def _shifted(self, point: Array) -> Array:
        """Logits [n, K] less the largest of their row."""
        logits = self.rows @ point[:-1].astype(np.float32) + point[-1].astype(np.float32)
        shifted: Array = logits - logits.max(axis=1, keepdims=True)
        return shifted


def choose_best(
    candidates: Iterable[Candidate], score: Callable[[Candidate], float], nodes: int
) -> tuple[int, Candidate]:
    """Index and first of the candidates with the best accuracy on some number of nodes.

    Two in a row that are worse by more than a standard error end the search: models are fitted on demand, and those of
    weak regularization take longest.
    """
    best: tuple[int, Candidate] | None = None
    highest, worse = -1.0, 0
    for index, candidate in enumerate(candidates):
        accuracy = score(candidate)
        margin = (highest * (1 - highest) / nodes) ** 0.5 if best else 0.0
        worse = worse + 1 if accuracy < highest - margin else 0
        if best is None or accuracy > highest:
            best, highest = (index, candidate), accuracy
        if worse == 2:
            break
    assert best is not None, "no candidates"
    return best
