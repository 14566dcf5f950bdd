"""A mixture of two beta distributions, fitted by EM with moments (Eq. 3-9 of the paper)."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import betaln, expit
from torch import Tensor

from progcl.posteriors.base import Floats
from progcl.posteriors.mixture import EDGE, SINGLE_EDGE, Mixture, Rule

EPSILON = 1e-12  # least p(c | s), and least variance
BELOW_BERNOULLI = 1e-6  # relative distance of a variance to the largest one that its mean allows
CONVERGED = 1e-10  # relative change of every parameter in a step
CHUNK = 2**18  # similarities per step of arithmetic; for all of them, only the logarithms are kept


class BetaMixture(Mixture):
    """Two beta distributions on [0, 1], one of true and one of false negatives, fitted by EM with moment matching.

    Xia et al., 2022, "ProGCL: Rethinking Hard Negative Mining in Graph Contrastive Learning".

    p(s) = Σ_c λ_c Beta(s | α_c, β_c)                                        (Eq. 3, 4)

    E-step: p(c | s) by Bayes' rule (Eq. 5). M-step: weighted mean and variance (Eq. 6), their moment
    estimates of α and β (Eq. 7), and λ (Eq. 8). Moment matching is not maximum likelihood: the likelihood
    need not rise at every step. p(true | s) is a logistic function of log s and log(1-s).

    Args:
        prior: w_init, initial weight of the false negatives' component
        iterations: I, the largest number of EM steps
        true_component: what marks the true negatives: the smaller `mean`, the larger `weight`, or `first`
        tol: EM stops after a step that changes the mean log-likelihood by less; with 0, once no parameter changes
        require_two_modes: give up a mixture whose components cannot be told apart, which is not in the paper
        min_beta: replaces a second component's β below 1 (the authors' code: 1.01); None leaves it free

    Attributes:
        alpha_: α of both components, true negatives first
        beta_: β of both
        weight_: λ of both
    """

    PARAMETERS = ("alpha_", "beta_", "weight_")

    def __init__(
        self,
        prior: float = 0.05,
        iterations: int = 10,
        true_component: Rule = "mean",
        min_beta: float | None = None,
        tol: float = 0.0,
        require_two_modes: bool = False,
    ) -> None:
        super().__init__(prior, iterations, true_component, tol, require_two_modes)
        self.min_beta = min_beta

    def log_odds(self, s: Tensor) -> Tensor:
        """Linear in log s and log(1-s)."""
        constant, log_s, log_rest = self._coefficients()
        return torch.log(s).mul_(log_s).add_(torch.log1p(-s), alpha=log_rest).add_(constant)

    def density(self, s: Floats) -> Floats:
        """λ_c Beta(s | α_c, β_c) of each component, [2, n]: true negatives first (Eq. 3, 4)."""
        return np.exp(_log_density(_logs(np.clip(s, EDGE, 1 - EDGE)), self.alpha_, self.beta_, self.weight_))

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each component."""
        total = self.alpha_ + self.beta_
        mean = self.alpha_ / total
        return mean, mean * (1 - mean) / (total + 1)

    def maximize(self, s: Floats) -> None:
        """EM with moment matching (Eq. 5-8)."""
        chunks = [(chunk, _logs(chunk)) for chunk in np.array_split(s, -(-s.size // CHUNK))]
        self.alpha_, self.beta_ = np.array([1.0, 2.0]), np.array([2.0, 1.0])
        self.weight_ = np.array([1 - self.prior, self.prior])
        before = -np.inf
        for step in range(1, self.iterations + 1):
            self.n_iter_ = step
            old = np.stack([self.alpha_, self.beta_, self.weight_])
            sums = np.sum([_power_sums(chunk, self._responsibilities(logs)) for chunk, logs in chunks], axis=0)
            self.alpha_, self.beta_ = _match_moments(*sums)
            if self.beta_[1] < 1 and self.min_beta is not None:
                self.beta_[1] = self.min_beta
            self.weight_ = sums[0] / sums[0].sum()  # Eq. 8
            if np.allclose(old, np.stack([self.alpha_, self.beta_, self.weight_]), rtol=CONVERGED, atol=0):
                break
            if self.tol:
                after = sum(self._log_likelihoods(logs).sum() for _, logs in chunks) / s.size
                if abs(after - before) < self.tol:
                    break
                before = after
        self.gain_ = float(sum(self._gains(chunk, s).sum() for chunk, _ in chunks) / s.size)

    def _gains(self, chunk: Floats, s: Floats) -> Floats:
        """log p(s) minus that of a single beta distribution with the moments of s, of each value of a chunk.

        Values are clipped as in single precision: a few at 0 or 1, whose density nearly vanishes, would decide.
        """
        logs = _logs(np.clip(chunk, SINGLE_EDGE, 1 - SINGLE_EDGE))
        single = _match_moments(*_power_sums(s, np.ones((1, s.size))))
        gains: Floats = self._log_likelihoods(logs) - _log_density(logs, *single, np.ones(1))[0]
        return gains

    def _log_likelihoods(self, logs: tuple[Floats, Floats]) -> Floats:
        """log p(s), [n] (Eq. 4)."""
        likelihoods: Floats = np.logaddexp(*_log_density(logs, self.alpha_, self.beta_, self.weight_))
        return likelihoods

    def _responsibilities(self, logs: tuple[Floats, Floats]) -> Floats:
        """p(c | s), [2, n] (Eq. 5)."""
        log_joint = _log_density(logs, self.alpha_, self.beta_, self.weight_)
        first = expit(log_joint[0] - log_joint[1])
        responsibilities: Floats = np.maximum(np.stack([first, 1 - first]), EPSILON)
        return responsibilities

    def _coefficients(self) -> tuple[float, float, float]:
        """Constant and coefficients of log s and log(1-s) in log p(true | s) - log p(false | s)."""
        constant = np.log(self.weight_) - betaln(self.alpha_, self.beta_)
        true, false = np.stack([constant, self.alpha_, self.beta_], axis=1)
        return tuple((true - false).tolist())


def _logs(s: Floats) -> tuple[Floats, Floats]:
    """log s and log(1-s)."""
    return np.log(s), np.log1p(-s)


def _log_density(logs: tuple[Floats, Floats], alpha: Floats, beta: Floats, weight: Floats) -> Floats:
    """log λ_c + log Beta(s | α_c, β_c) from log s and log(1-s), [c, n] (Eq. 3)."""
    log_s, log_rest = logs
    rows = [
        np.log(w) - betaln(a, b) + (a - 1) * log_s + (b - 1) * log_rest
        for a, b, w in zip(alpha, beta, weight, strict=True)
    ]
    return np.stack(rows)


def _power_sums(s: Floats, weight: Floats) -> Floats:
    """Σ w, Σ w·s and Σ w·s² of each component, [3, c], from s [n] and weights [c, n]."""
    return np.stack([weight.sum(axis=1), weight @ s, weight @ s**2])


def _match_moments(total: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """α_c and β_c of the beta distributions with the weighted means and variances (Eq. 6, 7)."""
    mean = first / total
    variance = second / total - mean**2
    bernoulli = mean * (1 - mean)  # the largest variance that a distribution on [0, 1] with this mean can have
    concentration = bernoulli / np.clip(variance, EPSILON, bernoulli * (1 - BELOW_BERNOULLI)) - 1
    return mean * concentration, (1 - mean) * concentration
