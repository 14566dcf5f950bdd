"""The protocols of the linear probe: what they score, what they never look at, and what they refuse."""

from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.splits import Split
from progcl.data.synthetic import csbm
from progcl.evaluation.logistic import LogisticRegressions
from progcl.evaluation.probe import (
    C_GRID,
    GCA_EVAL_EVERY,
    GCA_STEPS,
    PROTOCOLS,
    _normalize_rows,
    linear_probe,
    probe_gca,
    score_split,
)
from progcl.evaluation.scores import Score

DATA = csbm(nodes=205, classes=3)
FIRST_RIGHT = 2  # evaluation at which the validation nodes of the test below are all right
PERFECT = torch.nn.functional.one_hot(DATA.y).float()


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol `gca` takes thousands of steps, none of which differs from the others."""
    monkeypatch.setitem(PROTOCOLS, "gca", partial(probe_gca, steps=400))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_perfect_embeddings_score_100_and_noise_about_chance(protocol: str) -> None:
    assert linear_probe(PERFECT, DATA, protocol, splits=1).accuracies == (100.0,)
    noise = torch.randn(205, 4, generator=torch.Generator().manual_seed(0))
    assert 20 < linear_probe(noise, DATA, protocol, splits=1).mean < 50


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_test_labels_choose_nothing(protocol: str) -> None:
    """Flipped test labels change the accuracy, not the predictions: accuracy before + accuracy after = 1."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(200, 4))).float()
    labels = (x[:, 0] + 0.7 * torch.from_numpy(rng.normal(size=200)) > 0).long().numpy()
    split = Split(np.arange(40), np.arange(40, 80), np.arange(80, 200))
    flipped = labels.copy()
    flipped[80:] = 1 - flipped[80:]
    before, after = (next(PROTOCOLS[protocol](x, targets, [split])).accuracy for targets in (labels, flipped))
    assert before > 0.6
    assert before + after == pytest.approx(1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_unknown_labels_change_nothing_but_the_nodes_that_are_scored(protocol: str) -> None:
    """With 62 % of the labels unknown, noise scores near the rate of the largest class, not 62 %."""
    data = csbm(nodes=1000, classes=4)
    hidden = np.random.default_rng(0).permutation(1000)[:620]
    data.y[hidden] = -1
    noise = torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))
    score = linear_probe(noise, data, protocol, splits=2)
    assert score.nodes == 380
    assert score.majority == pytest.approx(100 * float(torch.bincount(data.y[data.y >= 0]).max()) / 380)
    assert score.mean < 40
    assert score.roc_auc == ()


def test_scores_of_a_split_are_their_definitions() -> None:
    labels, predicted, margin = (
        np.array([0, 0, 0, 1, 1]),
        np.array([0, 0, 1, 1, 0]),
        np.array([0.1, 0.4, 0.6, 0.9, 0.3]),
    )
    f1 = [2 * 2 / (2 * 2 + 1 + 1), 2 * 1 / (2 * 1 + 1 + 1)]
    pairs = [(margin[i] > margin[j]) for i in (3, 4) for j in (0, 1, 2)]
    assert score_split(labels, predicted, margin) == pytest.approx((3 / 5, np.mean(f1), np.mean(pairs)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_classes_have_an_auc(protocol: str) -> None:
    data = csbm(nodes=200, classes=2)
    score = linear_probe(torch.nn.functional.one_hot(data.y).float(), data, protocol, splits=1)
    assert (score.macro_f1, score.roc_auc) == ((100.0,), (100.0,))


@pytest.mark.parametrize("protocol", ["clean", "bgrl"])
def test_the_auc_is_that_of_the_second_class(protocol: str) -> None:
    """Of logits that scikit-learn's regression has as well, at any C: one column of noise."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    angle = 0.4 * y + rng.normal(size=300)
    x = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    split = Split(np.arange(100), np.arange(100, 200), np.arange(200, 300))
    (score,) = PROTOCOLS[protocol](x, y, [split])
    (turned,) = PROTOCOLS[protocol](x, 1 - y, [split])
    assert 0.55 < score.roc_auc < 0.8
    assert turned.roc_auc == pytest.approx(score.roc_auc, abs=0.01)
    assert abs(score.roc_auc - roc_auc_score(y[200:], angle[200:])) < 0.1


def test_clean_and_bgrl_ignore_the_length_of_a_row() -> None:
    noisy = PERFECT + torch.randn(205, 3, generator=torch.Generator().manual_seed(1))
    scaled = noisy * torch.linspace(0.5, 5, 205)[:, None]
    for protocol in ("clean", "bgrl"):
        assert linear_probe(noisy, DATA, protocol, 1).accuracies == linear_probe(scaled, DATA, protocol, 1).accuracies


def test_no_split_is_started_after_the_time_limit() -> None:
    assert [len(linear_probe(PERFECT, DATA, splits=4, seconds=limit).accuracies) for limit in (0.0, 60.0)] == [1, 4]


def test_no_split_is_started_that_would_end_after_the_time_limit() -> None:
    """With 10 s a split, 25 s are enough for two; every split is told."""
    ticks, kept = count(0, 5), list[int]()  # the clock is read at the start, and before and after a split

    def on_split(score: Score) -> None:
        kept.append(len(score.accuracies))

    linear_probe(PERFECT, DATA, splits=4, seconds=25, on_split=on_split, clock=lambda: next(ticks))
    assert kept == [1, 2]


def test_bad_input() -> None:
    with pytest.raises(InputError, match="unknown protocol `clena`"):
        linear_probe(PERFECT, DATA, "clena")
    with pytest.raises(InputError, match="not finite"):
        linear_probe(PERFECT * torch.nan, DATA)
    with pytest.raises(InputError, match="no labels"):
        linear_probe(PERFECT, Data(x=PERFECT, edge_index=DATA.edge_index))
    tiny = csbm(nodes=12, classes=3, degree=3)
    for protocol in ("clean", "bgrl"):
        with pytest.raises(InputError, match="too few to fit"):
            linear_probe(tiny.x, tiny, protocol)
    with pytest.raises(InputError, match="3 embeddings do not belong to a graph of 205 nodes"):
        linear_probe(PERFECT[:3], DATA)


@pytest.mark.parametrize("protocol", ["clean", "bgrl"])
def test_sparse_rows_give_the_accuracy_of_dense_ones(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = csbm(nodes=200, seed=0)
    generator = torch.Generator().manual_seed(0)
    words = torch.eye(5).repeat(1, 20)[data.y] * (torch.rand(200, 100, generator=generator) < 0.3)
    assert words.count_nonzero() < 0.1 * words.numel()
    sparse = linear_probe(words, data, protocol, splits=1)
    monkeypatch.setattr("progcl.evaluation.probe.SPARSE_DENSITY", 0)
    assert linear_probe(words, data, protocol, splits=1).accuracies == pytest.approx(sparse.accuracies, abs=0.7)


def test_rows_of_unit_length_are_sparse_if_most_entries_are_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks of any size; rows of zeros stay."""
    monkeypatch.setattr("progcl.evaluation.probe.ROWS_PER_CHUNK", 3)
    dense = torch.randn(10, 20, generator=torch.Generator().manual_seed(0))
    sparse = dense * (torch.arange(20) == 4)
    sparse[7] = 0
    for rows, is_sparse in ((dense, False), (sparse, True)):
        found = _normalize_rows(rows)
        assert issparse(found) == is_sparse
        assert found.dtype == np.float32
        expected = torch.nn.functional.normalize(rows, dim=1).numpy()
        np.testing.assert_allclose(found.toarray() if is_sparse else found, expected, rtol=1e-6)


def test_the_grid_of_c_goes_from_a_tenth_to_ten_thousand() -> None:
    np.testing.assert_allclose(C_GRID, [10 ** (k / 2) for k in range(-2, 9)], rtol=1e-12)


def noisy_classes() -> tuple[torch.Tensor, NDArray[np.int64], Split]:
    """Overlapping classes, of which the best C is inside the grid."""
    rng = np.random.default_rng(3)
    y = np.arange(300) % 3
    x = np.eye(3, 12)[y] + rng.normal(size=(300, 12))
    return torch.from_numpy(x), y, Split(np.arange(30), np.arange(30, 60), np.arange(60, 300))


def test_bgrl_takes_the_c_of_scikit_learns_grid_search(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, split = noisy_classes()
    grids: list[list[float]] = []
    fit = LogisticRegressions.fit

    def record(self: Any, nodes: Any, labels: Any, grid: NDArray[np.float64]) -> Any:
        grids.append(list(grid))
        return fit(self, nodes, labels, grid)

    monkeypatch.setattr(LogisticRegressions, "fit", record)
    accuracy = next(PROTOCOLS["bgrl"](x, y, [split])).accuracy
    rows = torch.nn.functional.normalize(x, dim=1).numpy()
    search = GridSearchCV(
        LogisticRegression(max_iter=5000, tol=1e-5), {"C": C_GRID}, cv=KFold(5, shuffle=True, random_state=0)
    ).fit(rows[:60], y[:60])
    assert C_GRID[0] < search.best_params_["C"] < C_GRID[-1]
    assert grids[-1][-1] == search.best_params_["C"]
    assert accuracy == search.score(rows[60:], y[60:])


def test_clean_takes_the_smallest_of_the_best_c() -> None:
    x, y, split = noisy_classes()
    rows = torch.nn.functional.normalize(x, dim=1).numpy()
    scores = []
    for strength in C_GRID:
        model = LogisticRegression(C=strength, max_iter=5000, tol=1e-5).fit(rows[:30], y[:30])
        scores.append((model.score(rows[30:60], y[30:60]), model.score(rows[60:], y[60:])))
    validation, test = zip(*scores, strict=True)
    assert validation.count(max(validation)) > 1
    assert [each.accuracy for each in PROTOCOLS["clean"](x, y, [split])] == [test[validation.index(max(validation))]]


def test_gca_is_a_linear_layer_trained_by_adam() -> None:
    """Scores at the best of the evaluations, every 20 steps, of torch's own layer; two splits, both from the start."""
    assert (GCA_STEPS, GCA_EVAL_EVERY) == (3000, 20)
    x, y, split = noisy_classes()
    y = y % 2
    splits = [split, Split(split.train + 60, split.validation + 60, np.arange(60))]
    for each, score in zip(splits, probe_gca(x, y, splits, steps=100), strict=True):
        layer = torch.nn.Linear(12, 2)
        torch.nn.init.xavier_uniform_(layer.weight, generator=torch.Generator().manual_seed(0))
        torch.nn.init.zeros_(layer.bias)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
        found = []
        for step in range(1, 101):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(x[each.train].float()), torch.from_numpy(y[each.train])).backward()
            optimizer.step()
            if step % 20 == 0:
                logits = layer(x.float()).detach().numpy()
                right = (logits.argmax(axis=1) == y)[each.validation].mean()
                found.append((right, logits[each.test]))
        logits = max(found, key=lambda pair: pair[0])[1]
        expected = score_split(y[each.test], logits.argmax(axis=1), logits[:, 1] - logits[:, 0])
        assert score == pytest.approx(expected, abs=1e-12)


def test_gca_takes_the_first_of_the_best_steps() -> None:
    """Validation is right from the first evaluation on: later steps, though better on test nodes, do not count."""
    x, y, split = noisy_classes()
    easy = split.train[:3]
    split = Split(split.train, easy, split.test)
    after, later = (next(probe_gca(x, y, [split], steps=steps)).accuracy for steps in (20 * FIRST_RIGHT, 400))
    at_validation = next(probe_gca(x, y, [Split(split.train, easy, easy)], steps=20 * FIRST_RIGHT)).accuracy
    assert at_validation == 1
    assert later == after
    last = next(probe_gca(x, y, [Split(split.train, split.test, split.test)], steps=400)).accuracy
    assert last != after
