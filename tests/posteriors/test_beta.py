"""The beta mixture against a loop written from Eq. 3-9, and on input to which no mixture can be fitted."""

from typing import Any

import numpy as np
import pytest
import torch

from progcl import BetaMixture, GaussianMixture, InputError
from progcl.posteriors import Mixture
from support.naive import expectation_maximization, p_true

LOW, HIGH = (3.0, 9.0), (8.0, 2.5)


def sample(share: float = 0.8, size: int = 40_000, low: tuple[float, float] = LOW) -> Any:
    rng = np.random.default_rng(0)
    low_size = round(size * share)
    return np.concatenate([rng.beta(*low, low_size), rng.beta(*HIGH, size - low_size)])


def test_em_is_equations_3_to_8() -> None:
    x = sample(size=500)
    mixture = BetaMixture(prior=0.15, iterations=10).fit(x)
    expected = expectation_maximization(x, 0.15, 10)
    np.testing.assert_allclose([mixture.alpha_, mixture.beta_, mixture.weight_], expected, rtol=1e-8)


def test_known_parameters_are_recovered() -> None:
    mixture = BetaMixture(iterations=300).fit(sample())
    np.testing.assert_allclose(mixture.alpha_, [3.0, 8.0], rtol=0.1)
    np.testing.assert_allclose(mixture.beta_, [9.0, 2.5], rtol=0.1)
    np.testing.assert_allclose(mixture.weight_, [0.8, 0.2], atol=0.02)


def test_posterior_is_scipys_ratio() -> None:
    mixture = BetaMixture().fit(sample())
    s = np.linspace(1e-4, 1 - 1e-4, 101)
    expected = [p_true(mixture, value) for value in s]
    probabilities = mixture.predict_proba(s)
    np.testing.assert_allclose(probabilities[:, 0], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    tensor = torch.from_numpy(s)
    assert torch.equal(mixture.predict_proba(tensor), torch.from_numpy(probabilities))
    torch.testing.assert_close(mixture.posterior(tensor.float()), torch.tensor(expected), atol=1e-5, rtol=1e-5)


def test_density_integrates_to_one() -> None:
    grid = np.linspace(0, 1, 20_001)
    densities = BetaMixture().fit(sample()).density(grid)
    assert np.trapezoid(densities.sum(axis=0), grid) == pytest.approx(1, abs=1e-4)


def test_both_rules_for_the_true_component() -> None:
    x = sample(share=0.3)  # the lower component is the lighter one: the rules disagree
    lower = BetaMixture(prior=0.5, true_component="mean").fit(x)
    heavier = BetaMixture(prior=0.5, true_component="weight").fit(x)
    assert lower.predict_proba(np.array([0.1]))[0, 0] > 0.9
    assert heavier.predict_proba(np.array([0.1]))[0, 0] < 0.1
    np.testing.assert_allclose(lower.alpha_, heavier.alpha_[::-1])


def test_released_bound_on_the_second_beta() -> None:
    x = np.concatenate([sample(size=1000), np.full(400, 0.999)])
    assert BetaMixture().fit(x).beta_[1] < 1
    assert BetaMixture(min_beta=1.01, true_component="first").fit(x).beta_[1] == 1.01


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (np.full(100, 0.3), "all equal"),
        (np.array([0.1, 0.9]), "fewer than four"),
        (np.array([]), "fewer than four"),
        (np.append(sample(size=100), np.nan), "1 of 101 are not finite"),
        (np.append(sample(size=9), [np.inf] + [np.nan] * 19), "20 of 29 are not finite"),
        (np.random.default_rng(0).beta(5, 5, 20_000), "one mode"),
        (np.clip(np.random.default_rng(0).normal(0.5, 0.1, 20_000), 0, 1), "one mode"),
    ],
)
def test_degenerate_input_counts_every_negative_as_true(x: Any, reason: str) -> None:
    mixture = BetaMixture(require_two_modes=True)
    with pytest.warns(UserWarning, match=reason):
        mixture.fit(x)
    assert mixture.degenerate_
    np.testing.assert_array_equal(mixture.predict_proba(np.array([0.0, 0.5, 1.0])), [[1, 0]] * 3)


@pytest.mark.parametrize("kind", [BetaMixture, GaussianMixture])
def test_em_goes_on_where_there_is_one_mode_as_in_the_paper(kind: type[Mixture]) -> None:
    mixture = kind().fit(np.random.default_rng(0).normal(0.5, 0.1, 20_000).clip(0, 1))
    assert mixture.is_unimodal
    assert not mixture.degenerate_
    assert mixture.facts()["unimodal"]
    p = mixture.predict_proba(np.linspace(0, 1, 11))[:, 0]
    assert (p < 1).any()
    assert ((p >= 0) & (p <= 1)).all()


def test_all_equal_is_given_up_in_any_case() -> None:
    with pytest.warns(UserWarning, match="all equal"):
        assert BetaMixture().fit(np.full(100, 0.3)).degenerate_


def beta_components(gain: float, first: float, second: float) -> BetaMixture:
    """A mixture of two beta distributions with these means and the variance 0.01."""
    mixture = BetaMixture()
    mean = np.array([first, second])
    concentration = mean * (1 - mean) / 0.01 - 1
    mixture.alpha_, mixture.beta_ = mean * concentration, (1 - mean) * concentration
    mixture.weight_, mixture.gain_ = np.array([0.7, 0.3]), gain
    return mixture


def test_one_mode_is_less_than_a_ten_thousandth_nat_or_half_a_standard_deviation() -> None:
    assert not beta_components(1.01e-4, 0.4, 0.4501).is_unimodal
    assert beta_components(0.99e-4, 0.4, 0.8).is_unimodal
    assert beta_components(0.5, 0.4, 0.4499).is_unimodal
    assert not beta_components(0.5, 0.4501, 0.4).is_unimodal


def test_em_stops_when_it_has_converged() -> None:
    x = sample(size=4000)
    converged = BetaMixture(iterations=1000, tol=1e-7).fit(x)
    assert 10 < converged.n_iter_ < 1000
    same = BetaMixture(iterations=converged.n_iter_).fit(x)
    for name in BetaMixture.PARAMETERS:
        np.testing.assert_array_equal(getattr(converged, name), getattr(same, name))
    further = BetaMixture(iterations=1000).fit(x)  # until no parameter changes
    assert converged.n_iter_ < further.n_iter_ < 1000
    assert converged.gain_ == pytest.approx(further.gain_, abs=1e-4)
    before = BetaMixture(iterations=converged.n_iter_ - 1).fit(x)
    assert abs(converged.gain_ - before.gain_) < 1e-7
    earlier = BetaMixture(iterations=converged.n_iter_ - 2).fit(x)
    assert abs(before.gain_ - earlier.gain_) >= 1e-7


def test_few_steps_are_all_made() -> None:
    assert BetaMixture(tol=1e-12).fit(sample(size=1000)).n_iter_ == 10


def test_similarities_of_0_and_1_are_clipped_as_in_the_released_code() -> None:
    x = np.concatenate([sample(size=300), [0.0, 1.0, 1e-9, 1 - 1e-9]])
    mixture = BetaMixture().fit(x)
    expected = expectation_maximization(np.clip(x, 1e-12, 1 - 1e-12), 0.05, 10)
    np.testing.assert_allclose([mixture.alpha_, mixture.beta_, mixture.weight_], expected, rtol=1e-8)
    edges = np.array([0.0, 1e-9, 1 - 1e-9, 1.0])
    np.testing.assert_allclose(mixture.predict_proba(edges)[:, 0], [p_true(mixture, s) for s in edges], rtol=1e-6)
    assert mixture.posterior(torch.tensor([0.0, 1.0])).isfinite().all()  # 1 - 1e-12 is 1 in single precision


def test_similarities_0_and_1_have_a_finite_posterior() -> None:
    mixture = BetaMixture().fit(np.concatenate([sample(size=1000), [0.0, 1.0]]))
    assert np.isfinite(mixture.predict_proba(np.array([0.0, 1.0]))).all()


def test_the_fit_is_restored_from_a_tensor() -> None:
    mixture = BetaMixture().fit(sample(size=1000))
    copy = BetaMixture().from_tensor(mixture.to_tensor())
    grid = torch.linspace(0, 1, 11)
    assert torch.equal(mixture.posterior(grid), copy.posterior(grid))
    assert (copy.gain_, copy.degenerate_) == (mixture.gain_, False)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="not fitted"):
        BetaMixture().predict_proba(np.array([0.5]))
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        BetaMixture().fit(np.array([-0.5, 0.2, 0.3, 0.4]))
    with pytest.raises(InputError, match="prior"):
        BetaMixture(prior=0)
    with pytest.raises(InputError, match="tol"):
        BetaMixture(tol=-1)
    with pytest.raises(InputError, match="rule"):
        BetaMixture(true_component="biggest")  # type: ignore[arg-type]


def test_an_unknown_rule_for_the_true_component_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown rule `median`.*\n\nhint: known: mean, weight, first"):
        BetaMixture(true_component="median")  # type: ignore[arg-type]
