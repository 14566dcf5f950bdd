"""Posteriors by name, by class or as a user's object; and every one of them inside ProGCL-weight and ProGCL-mix."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from progcl import InfoNCE, InputError, ProGCLMix, ProGCLWeight
from progcl.posteriors import POSTERIORS, make_posterior
from progcl.posteriors.base import Posterior, Tabulated
from progcl.posteriors.baselines import Oracle
from progcl.posteriors.beta import BetaMixture
from progcl.testing import toy_views
from support.naive import loss, progcl_weights

N, TAU = 15, 0.4


class Logistic:
    """A user's own estimator: a logistic regression on similarities, with scikit-learn's interface."""

    def fit(self, x: Any) -> "Logistic":
        self.model = LogisticRegression().fit(x, x[:, 0] < np.median(x))
        return self

    def predict_proba(self, x: Any) -> Any:
        return self.model.predict_proba(x)[:, ::-1]


def test_a_users_estimator_is_tabulated() -> None:
    x = np.random.default_rng(0).random(500)
    posterior = make_posterior(Logistic())
    assert isinstance(posterior, Tabulated)
    posterior.fit(x)
    s = np.linspace(0, 1, 1234)
    np.testing.assert_allclose(
        posterior.predict_proba(s), Logistic().fit(x[:, None]).predict_proba(s[:, None]), atol=1e-6
    )
    copy = Tabulated(Logistic()).from_tensor(posterior.to_tensor())
    np.testing.assert_array_equal(copy.predict_proba(s), posterior.predict_proba(s))
    assert isinstance(make_posterior(f"{__name__}:Logistic"), Tabulated)


class OneColumn(Logistic):
    def predict_proba(self, x: Any) -> Any:
        return super().predict_proba(x)[:, 0]


def test_bad_estimators() -> None:
    with pytest.raises(InputError, match="two columns"):
        Tabulated(OneColumn()).fit(np.linspace(0, 1, 50))
    with pytest.raises(InputError, match="fit and predict_proba"):
        make_posterior(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="fit and predict_proba"):
        make_posterior(Logistic)  # type: ignore[arg-type]  # a class where an object is needed
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


def train_past_the_fit(miner: ProGCLWeight | ProGCLMix) -> InfoNCE:
    criterion = InfoNCE(TAU, miner)
    for epoch in (1, 2):
        criterion.set_epoch(epoch)
        criterion(*toy_views(N, 6, seed=epoch))
    return criterion


@pytest.mark.parametrize("name", MAKERS)
def test_weights_from_any_estimator(name: str) -> None:
    """Eq. 10 with p of the estimator, in both views and on both paths."""
    miner = ProGCLWeight(start_epoch=1, estimator=MAKERS[name]())
    criterion = train_past_the_fit(miner)
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
        criterion = train_past_the_fit(ProGCLMix(start_epoch=1, hardest=6, synthetic=9, estimator=MAKERS[name]()))
        criterion.fast = fast
        h1, h2 = toy_views(N, 6, seed=3)
        value = criterion(h1, h2)
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(value, (h1, h2)))
        values.append(value.item())
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_the_fit_is_saved_and_restored(name: str) -> None:
    criterion = train_past_the_fit(ProGCLWeight(start_epoch=1, estimator=MAKERS[name]()))
    other = InfoNCE(TAU, ProGCLWeight(start_epoch=1, estimator=MAKERS[name]()))
    other.load_state_dict(criterion.state_dict())
    other.set_epoch(2)
    views: tuple[Tensor, Tensor] = toy_views(N, 6, seed=5)
    assert torch.equal(criterion(*views), other(*views))


def test_beta_is_the_default() -> None:
    assert isinstance(ProGCLWeight().estimator, BetaMixture)
