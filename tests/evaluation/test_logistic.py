"""Logistic regressions are scikit-learn's, whatever coordinates they are found in."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from progcl.evaluation import logistic
from progcl.evaluation.logistic import LogisticRegressions, _Problem, choose_best

GRID = [0.1, 10.0, 1000.0]


def make_rows(
    classes: int, nodes: int = 300, columns: int = 8, mean: float = 3.0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Classes that overlap, on columns of very different scales."""
    rng = np.random.default_rng(classes)
    y = np.arange(nodes) % classes
    x = rng.normal(size=(classes, columns))[y] + 2 * rng.normal(size=(nodes, columns))
    return (x * np.logspace(0, -1.5, columns) + mean).astype(np.float32), y


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("form", ["dense", "sparse", "wide", "sampled"])
def test_models_are_those_of_scikit_learn(classes: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-6)
    if form == "wide":
        monkeypatch.setattr(logistic, "WIDEST", 4)
    if form == "sampled":  # every sixth row
        monkeypatch.setattr(logistic, "SAMPLE", 50)
    x, y = make_rows(classes, mean=3.0 if form in ("dense", "sampled") else 0.0)
    train, test = np.arange(200), np.arange(200, 300)
    rows: Any = csr_matrix(x) if form == "sparse" else x
    for strength, model in zip(GRID, LogisticRegressions(rows).fit(train, y[train], GRID), strict=True):
        expected = LogisticRegression(C=strength, max_iter=5000, tol=1e-8).fit(x[train].astype(float), y[train])
        chances = np.exp(model.logits(test))
        chances /= chances.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(chances, expected.predict_proba(x[test].astype(float)), atol=2e-3)
        assert (model.predict(test) == expected.predict(x[test].astype(float))).mean() > 0.98
        assert model.classes.tolist() == list(range(classes))


def test_more_columns_than_nodes() -> None:
    x, y = make_rows(3, nodes=90, columns=200)
    train = np.arange(45)
    (model,) = LogisticRegressions(x).fit(train, y[train], [1.0])
    expected = LogisticRegression(C=1.0, max_iter=5000, tol=1e-8).fit(x[train].astype(float), y[train])
    assert (model.predict(np.arange(45, 90)) == expected.predict(x[45:].astype(float))).mean() > 0.95


def test_a_path_ends_where_a_cold_fit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-6)
    x, y = make_rows(4)
    nodes, regressions = np.arange(300), LogisticRegressions(x)
    *_, warm = regressions.fit(nodes, y, GRID)
    (cold,) = regressions.fit(nodes, y, GRID[-1:])
    np.testing.assert_allclose(warm.weight, cold.weight, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("form", ["dense", "wide"])
def test_the_hessian_is_near_the_identity_in_the_units_of_the_solver(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first point, all zero, exactly; later for the bias, and within a factor of 2.5 for an axis."""
    starts: list[tuple[Any, ...]] = []
    solve = _Problem.solve

    def record(self: _Problem, start: Any, penalty: float, units: Any) -> Any:
        starts.append((self.rows, self.targets, start.copy(), penalty, units))
        return solve(self, start, penalty, units)

    monkeypatch.setattr(_Problem, "solve", record)
    monkeypatch.setattr(logistic, "WIDEST", 4 if form == "wide" else 100)
    x, y = make_rows(3, mean=0.0 if form == "wide" else 3.0)
    list(LogisticRegressions(x).fit(np.arange(300), y, GRID))
    for number, (rows, targets, start, penalty, units) in enumerate(starts):
        assert penalty == pytest.approx(1 / (GRID[number] * 300))
        hessian = hessian_diagonal(rows, targets, start, penalty).mean(axis=1) * units[:, 0] ** 2
        np.testing.assert_allclose(hessian[-1], 1, rtol=1e-4)
        np.testing.assert_allclose(np.log(hessian), 0, atol=1e-3 if number == 0 else np.log(2.5))


def hessian_diagonal(rows: Any, targets: Any, point: Any, penalty: float) -> NDArray[np.float64]:
    """Second derivatives of mean cross-entropy + ½ penalty ‖W‖², by torch, [d + 1, K]."""
    inputs, classes = torch.from_numpy(rows).double(), torch.from_numpy(targets).argmax(dim=1)

    def value(flat: torch.Tensor) -> torch.Tensor:
        weight, bias = flat.view(point.shape)[:-1], flat.view(point.shape)[-1]
        return torch.nn.functional.cross_entropy(inputs @ weight + bias, classes) + penalty / 2 * weight.square().sum()

    hessian = torch.autograd.functional.hessian(value, torch.from_numpy(point).flatten())
    diagonal: NDArray[np.float64] = hessian.diagonal().view(point.shape).numpy()
    return diagonal


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_classes_that_a_line_separates_have_finite_models(scale: float) -> None:
    """p (1 - p) vanishes as C grows, and exponentials of logits overflow."""
    x, y = make_rows(3)
    x[:, 0] += 100 * y
    models = list(LogisticRegressions(scale * x).fit(np.arange(300), y, [1.0, 1e4, 1e8]))
    for model in models:
        assert np.isfinite(model.weight).all()
        assert np.isfinite(model.bias).all()
        assert {str(model.weight.dtype), str(model.bias.dtype)} == {"float32"}
    assert (models[-1].predict(np.arange(300)) == y).all()


def test_constant_columns_have_no_weight() -> None:
    """Also columns that are all zero; a constant adds to the bias alone."""
    x, y = make_rows(3)
    padded = np.hstack([x, np.full((300, 2), 5.0, np.float32), np.zeros((300, 1), np.float32)])
    nodes = np.arange(300)
    ((model,), (expected,)) = (list(LogisticRegressions(rows).fit(nodes, y, [10.0])) for rows in (padded, x))
    np.testing.assert_allclose(model.weight[8:], 0, atol=1e-3)
    np.testing.assert_allclose(model.logits(nodes), expected.logits(nodes), atol=0.05)


def test_classes_keep_their_numbers() -> None:
    x, y = make_rows(3)
    model = next(iter(LogisticRegressions(x).fit(np.arange(300), 10 * y + 5, [1.0])))
    assert set(model.predict(np.arange(300))) == {5, 15, 25}


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="all 4 labels are of one class"):
        next(LogisticRegressions(np.eye(4, dtype=np.float32)).fit(np.arange(4), np.ones(4, np.int64), [1.0]))


@pytest.mark.parametrize(
    ("accuracies", "best", "seen"),
    [
        ([0.5, 0.7, 0.6, 0.6, 0.9], 1, 4),  # two in a row, far worse: the last is never seen
        ([0.5, 0.7, 0.6, 0.69, 0.6, 0.9], 5, 6),  # one between them that is near the best
        ([0.5, 0.7, 0.69, 0.69, 0.69], 1, 5),  # within a standard error, (.7 · .3 / 100)^½ = .046
        ([0.7, 0.7, 0.8, 0.8], 2, 4),  # the first of equals
        ([0.0, 0.0, 0.0, 0.4], 3, 4),
        ([0.5, 0.453, 0.453, 0.9], 3, 4),  # (.5 · .5 / 100)^½ = .05
        ([0.5, 0.447, 0.447, 0.9], 0, 3),
    ],
)
def test_the_search_ends_at_two_that_are_clearly_worse(accuracies: list[float], best: int, seen: int) -> None:
    asked = []

    def score(accuracy: float) -> float:
        asked.append(accuracy)
        return accuracy

    assert choose_best(accuracies, score, nodes=100) == (best, accuracies[best])
    assert len(asked) == seen
