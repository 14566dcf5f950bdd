"""The Gaussian mixture against scipy's densities and known parameters."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from progcl.errors import ProgclWarning
from progcl.posteriors.gaussian import GaussianMixture


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
    densities = fitted.weight_[:, None] * stats.norm.pdf(s, fitted.mean_[:, None], fitted.sd_[:, None])
    np.testing.assert_allclose(fitted.predict_proba(s)[:, 0], densities[0] / densities.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(fitted.density(s), densities, rtol=1e-10)


def test_one_normal_is_degenerate() -> None:
    with pytest.warns(ProgclWarning, match="one mode"):
        fitted = GaussianMixture(require_two_modes=True).fit(
            np.random.default_rng(0).normal(0.5, 0.1, 20_000).clip(0, 1)
        )
    assert fitted.degenerate_
    assert (fitted.predict_proba(np.array([0.1, 0.9]))[:, 0] == 1).all()


def test_em_of_normals_stops_when_it_has_converged() -> None:
    converged = GaussianMixture(iterations=500, tol=1e-5).fit(two_normals(2000))
    assert converged.n_iter_ < 500
    np.testing.assert_array_equal(
        GaussianMixture(iterations=converged.n_iter_).fit(two_normals(2000)).mean_, converged.mean_
    )
