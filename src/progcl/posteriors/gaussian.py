"""A mixture of two normal distributions: the paper's ablation."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from torch import Tensor

from progcl.posteriors.base import Floats
from progcl.posteriors.mixture import Mixture


class GaussianMixture(Mixture):
    """Two normal distributions in place of the beta ones (the paper's ablation), fitted by scikit-learn's EM.

    Attributes:
        mean_: μ of both components, true negatives first
        sd_: σ of both
        weight_: λ of both
    """

    PARAMETERS = ("mean_", "sd_", "weight_")

    def log_odds(self, s: Tensor) -> Tensor:
        """Quadratic in s: with unequal variances it need not be monotonic."""
        true, false = (
            torch.sub(s, mean).div_(sd).square_().div_(-2).add_(float(np.log(weight / sd)))
            for mean, sd, weight in zip(self.mean_.tolist(), self.sd_.tolist(), self.weight_.tolist(), strict=True)
        )
        return true.sub_(false)

    def density(self, s: Floats) -> Floats:
        """λ_c N(s | μ_c, σ_c) of each component, [2, n]: true negatives first."""
        mean, sd, weight = (getattr(self, name)[:, None] for name in self.PARAMETERS)
        density: Floats = weight * np.exp(-(((s - mean) / sd) ** 2) / 2) / (sd * np.sqrt(2 * np.pi))
        return density

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each component."""
        return self.mean_, self.sd_**2

    def maximize(self, s: Floats) -> None:
        """EM with means initialized at the quartiles, for `iterations` steps, or until it converges."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture as SklearnMixture

        model = SklearnMixture(
            2,
            covariance_type="diag",
            tol=self.tol,
            max_iter=self.iterations,
            weights_init=[1 - self.prior, self.prior],
            means_init=np.quantile(s, [0.25, 0.75])[:, None],
            precisions_init=np.full((2, 1), 1 / s.var()),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is set, not the tolerance
            model.fit(s[:, None])
        self.mean_, self.sd_ = model.means_[:, 0], np.sqrt(model.covariances_[:, 0])
        self.weight_, self.n_iter_ = model.weights_, model.n_iter_
        single = -0.5 * np.log(2 * np.pi * s.var()) - 0.5
        self.gain_ = float(model.score(s[:, None]) - single)
