"""Everything that says p(true | s): by itself, and inside the two schemes of ProGCL."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from progcl import InfoNCE, InputError, ProGCLMix, ProGCLWeight
from progcl.errors import ProgclWarning
from progcl.posteriors import POSTERIORS, make_posterior
from progcl.posteriors.base import Posterior, Tabulated
from progcl.posteriors.baselines import Oracle, Random, Tuned
from progcl.posteriors.beta import BetaMixture
from progcl.posteriors.gaussian import GaussianMixture
from progcl.testing import toy_views
from support.naive import loss, progcl_weights

N, TAU = 15, 0.4


def two_normals(n: int = 20_000) -> Any:
    rng = np.random.default_rng(0)
    low, high = rng.normal(0.3, 0.06, int(0.8 * n)), rng.normal(0.7, 0.1, int(0.2 * n))
    return np.clip(np.concatenate([low, high]), 0, 1)


def test_the_gaussian_mixture_recovers_its_parameters() -> None:
    fitted = GaussianMixture(prior=0.3, iterations=50).fit(two_normals())
    np.testing.assert_allclose(fitted.mean_, [0.3, 0.7], atol=0.01)
    np.testing.assert_allclose(fitted.sd_, [0.06, 0.1], atol=0.01)
    np.testing.assert_allclose(fitted.weight_, [0.8, 0.2], atol=0.01)
    assert fitted.gain_ > 0.1


def test_the_gaussian_posterior_is_a_ratio_of_scipys_densities() -> None:
    fitted = GaussianMixture().fit(two_normals())
    s = np.linspace(0.01, 0.99, 99)
    parts = fitted.weight_[:, None] * stats.norm.pdf(s, fitted.mean_[:, None], fitted.sd_[:, None])
    np.testing.assert_allclose(fitted.predict_proba(s)[:, 0], parts[0] / parts.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(fitted.density(s), parts, rtol=1e-10)


def test_one_normal_is_given_up() -> None:
    with pytest.warns(ProgclWarning, match="one mode"):
        fitted = GaussianMixture().fit(np.random.default_rng(0).normal(0.5, 0.1, 20_000).clip(0, 1))
    assert fitted.degenerate_
    assert (fitted.predict_proba(np.array([0.1, 0.9]))[:, 0] == 1).all()


def test_tuned_is_one_minus_s() -> None:
    s = torch.linspace(0, 1, 11, dtype=torch.float64)
    torch.testing.assert_close(Tuned().fit(s).predict_proba(s), torch.stack([1 - s, s], dim=1))


def test_random_is_uniform_and_belongs_to_the_pair() -> None:
    nodes = torch.arange(400)
    s = torch.zeros(400, 400, dtype=torch.float64)
    p = Random(seed=3).for_pairs(s, nodes[:, None], nodes)
    assert stats.kstest(p.flatten(), "uniform").pvalue > 0.01
    for shifted in (p.roll(1, 0), p.roll(1, 1), p.T):
        assert abs(np.corrcoef(p.flatten(), shifted.flatten())[0, 1]) < 0.01
    some = torch.tensor([5, 399, 0])
    assert torch.equal(Random(seed=3).for_pairs(s[:3, :2], some[:, None], some[:2]), p[some][:, some[:2]])
    assert not torch.equal(Random(seed=4).for_pairs(s, nodes[:, None], nodes), p)
    assert stats.kstest(Random().fit(s).predict_proba(s)[:, 0], "uniform").pvalue > 0.01


def test_the_oracle_knows_classes() -> None:
    oracle = Oracle(torch.tensor([0, 1, 0, -1, -1]))
    nodes = torch.arange(5)
    p = oracle.for_pairs(torch.zeros(5, 5), nodes[:, None], nodes)
    assert p.tolist()[0] == [0, 1, 0, 1, 1]
    assert p.tolist()[3] == [1, 1, 1, 1, 1]  # unknown is unlike any other, also unknown
    with pytest.raises(InputError, match="labels"):
        ProGCLWeight(estimator="oracle")
    with pytest.raises(InputError, match="nodes"):
        oracle.predict_proba(torch.zeros(2))


class Logistic:
    """Somebody's own: a logistic regression on similarities, in scikit-learn's manners."""

    def fit(self, x: Any) -> "Logistic":
        self.model = LogisticRegression().fit(x, x[:, 0] < np.median(x))
        return self

    def predict_proba(self, x: Any) -> Any:
        return self.model.predict_proba(x)[:, ::-1]


def test_a_users_estimator_is_read_off_a_table() -> None:
    x = np.random.default_rng(0).random(500)
    made = make_posterior(Logistic())
    assert isinstance(made, Tabulated)
    made.fit(x)
    s = np.linspace(0, 1, 1234)
    np.testing.assert_allclose(made.predict_proba(s), Logistic().fit(x[:, None]).predict_proba(s[:, None]), atol=1e-6)
    copy = Tabulated(Logistic()).from_tensor(made.to_tensor())
    np.testing.assert_array_equal(copy.predict_proba(s), made.predict_proba(s))
    assert isinstance(make_posterior(f"{__name__}:Logistic"), Tabulated)


class OneColumn(Logistic):
    def predict_proba(self, x: Any) -> Any:
        return super().predict_proba(x)[:, 0]


def test_bad_estimators() -> None:
    with pytest.raises(InputError, match="two columns"):
        Tabulated(OneColumn()).fit(np.linspace(0, 1, 50))
    with pytest.raises(InputError, match="fit and predict_proba"):
        make_posterior(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="did you mean `gaussian`"):
        make_posterior("gausian")
    with pytest.raises(InputError, match="cannot import"):
        make_posterior("no.such.module:Class")
    with pytest.raises(NotImplementedError):
        Posterior().posterior(torch.zeros(1))


MAKERS: dict[str, Callable[[], Any]] = {
    **{name: partial(str, name) for name in POSTERIORS if name != "oracle"},
    "oracle": lambda: Oracle(torch.arange(N) % 3),
    "own": Logistic,
}


def past_the_fit(miner: ProGCLWeight | ProGCLMix) -> InfoNCE:
    criterion = InfoNCE(TAU, miner)
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        criterion(*toy_views(N, 6, seed=epoch))
    return criterion


@pytest.mark.parametrize("name", MAKERS)
def test_weights_from_any_estimator(name: str) -> None:
    """Eq. 10 with p of the estimator, in both views and on both paths."""
    miner = ProGCLWeight(start_epoch=1, estimator=MAKERS[name]())
    criterion = past_the_fit(miner)
    assert miner.active
    h1, h2 = (torch.nn.functional.normalize(h.detach(), dim=1) for h in toy_views(N, 6, seed=3))
    nodes = torch.arange(N)
    at_e = miner.normalize(miner.snapshot[0] @ miner.snapshot[1].T)
    p = miner.estimator.for_pairs(at_e, nodes[:, None], nodes)
    s = miner.normalize(h1 @ h2.T)
    weights = [progcl_weights(a.tolist(), b.tolist()) for a, b in ((p, s), (p.T, s.T))]
    expected = loss(h1, h2, TAU, weights, [[[]] * N] * 2)
    assert criterion(h1, h2).item() == pytest.approx(expected, rel=1e-9)
    criterion.fast = False
    assert criterion(h1, h2).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", MAKERS)
def test_mixing_with_any_estimator(name: str) -> None:
    values = []
    for fast in (True, False):
        criterion = past_the_fit(ProGCLMix(start_epoch=1, hardest=6, synthetic=9, estimator=MAKERS[name]()))
        criterion.fast = fast
        h1, h2 = toy_views(N, 6, seed=3)
        value = criterion(h1, h2)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(value, (h1, h2)))
        values.append(value.item())
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_the_fit_is_saved_and_restored(name: str) -> None:
    criterion = past_the_fit(ProGCLWeight(start_epoch=1, estimator=MAKERS[name]()))
    other = InfoNCE(TAU, ProGCLWeight(start_epoch=1, estimator=MAKERS[name]()))
    other.load_state_dict(criterion.state_dict())
    other.set_epoch(2)
    views: tuple[Tensor, Tensor] = toy_views(N, 6, seed=5)
    assert torch.equal(criterion(*views), other(*views))


def test_beta_is_the_default() -> None:
    assert isinstance(ProGCLWeight().estimator, BetaMixture)
