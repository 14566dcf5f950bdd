"""The protocols of the linear probe: what they score, what they never look at, and what they refuse."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.splits import Split
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import C_GRID, PROTOCOLS, _fit_path, linear_probe, probe_gca, score_split

DATA = csbm(nodes=205, classes=3)
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
    before, after = (PROTOCOLS[protocol](x, targets, [split])[0].accuracy for targets in (labels, flipped))
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


def test_a_warm_started_path_is_that_of_independent_fits() -> None:
    """Each C has the coefficients of a cold fit, up to the solver's tolerance, and so the same predictions."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 6))
    y = np.arange(150) % 3
    x = centers[y] + 2 * rng.normal(size=(150, 6))  # classes that overlap: the optimum is well determined
    path = _fit_path(x, y)
    assert [model.C for model in path] == C_GRID.tolist()
    for strength, warm in zip(C_GRID, path, strict=True):
        cold = LogisticRegression(C=strength, max_iter=5000, tol=1e-5).fit(x, y)
        np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=3e-3, atol=3e-4)
        np.testing.assert_array_equal(warm.predict(x), cold.predict(x))


def test_clean_and_bgrl_ignore_the_length_of_a_row() -> None:
    noisy = PERFECT + torch.randn(205, 3, generator=torch.Generator().manual_seed(1))
    scaled = noisy * torch.linspace(0.5, 5, 205)[:, None]
    for protocol in ("clean", "bgrl"):
        assert linear_probe(noisy, DATA, protocol, 1).accuracies == linear_probe(scaled, DATA, protocol, 1).accuracies


def test_no_split_is_started_after_the_time_limit() -> None:
    assert [len(linear_probe(PERFECT, DATA, splits=4, seconds=limit).accuracies) for limit in (0.0, 60.0)] == [1, 4]


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
