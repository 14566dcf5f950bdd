"""Logistic regressions are scikit-learn's, whatever coordinates they are found in."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from progcl.evaluation import logistic
from progcl.evaluation.logistic import LogisticRegressions, choose_best

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
@pytest.mark.parametrize("form", ["dense", "sparse", "wide"])
def test_models_are_those_of_scikit_learn(classes: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-6)
    if form == "wide":
        monkeypatch.setattr(logistic, "WIDEST", 4)
    x, y = make_rows(classes, mean=3.0 if form == "dense" else 0.0)
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
    ],
)
def test_the_search_ends_at_two_that_are_clearly_worse(accuracies: list[float], best: int, seen: int) -> None:
    asked = []

    def score(accuracy: float) -> float:
        asked.append(accuracy)
        return accuracy

    assert choose_best(accuracies, score, nodes=100) == (best, accuracies[best])
    assert len(asked) == seen
