"""The beta mixture against a loop written from Eq. 3-9, and on input to which no mixture can be fitted."""

from typing import Any

import numpy as np
import pytest
import torch

from progcl import BetaMixture, InputError
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
        (np.append(sample(size=100), np.nan), "not finite"),
        (np.random.default_rng(0).beta(5, 5, 20_000), "one mode"),
        (np.clip(np.random.default_rng(0).normal(0.5, 0.1, 20_000), 0, 1), "one mode"),
    ],
)
def test_degenerate_input_counts_every_negative_as_true(x: Any, reason: str) -> None:
    mixture = BetaMixture()
    with pytest.warns(UserWarning, match=reason):
        mixture.fit(x)
    assert mixture.degenerate_
    np.testing.assert_array_equal(mixture.predict_proba(np.array([0.0, 0.5, 1.0])), [[1, 0]] * 3)


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
    with pytest.raises(InputError, match="rule"):
        BetaMixture(true_component="biggest")  # type: ignore[arg-type]
