"""Two-component mixtures over similarities: which negatives are probably false (Eq. 3-9 of the paper)."""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betaln, expit
from torch import Tensor

from progcl.errors import InputError, ProgclWarning, in_range

Floats = NDArray[np.float64]
Similarities = TypeVar("Similarities", Floats, Tensor)

EDGE = 1e-6  # similarities are kept this far from 0 and 1, where log s and log(1-s) are infinite
TINY = 1e-12
PIECE = 2**18  # similarities at a time: of all of them only the logarithms are kept beside
LEAST_GAIN = 1e-4  # nats per similarity that a second component has to earn
LEAST_DISTANCE = 0.5  # standard deviations between two components' means, for one to be "the lower"


class BetaMixture:
    """Two beta distributions on [0, 1], one of true and one of false negatives, fitted by EM with moments.

    p(s) = Σ_c λ_c Beta(s | α_c, β_c)                                        (Eq. 3, 4)

    E-step: p(c | s) by Bayes' rule (Eq. 5). M-step: weighted mean and variance (Eq. 6), their moment
    estimates of α and β (Eq. 7), and λ (Eq. 8). Moment matching is not maximum likelihood: the likelihood
    need not rise at every step.

    When two components say no more than one does (all values equal, a single mode, too few finite values),
    a warning is given, `degenerate_` is true and every negative counts as a true one.

    Args:
        prior: w_init, initial weight of the false negatives' component
        iterations: I, the number of EM steps
        true_component: what marks the true negatives: the smaller `mean`, the larger `weight`, or `first`, the
            component that starts low, which takes any fit as it comes (the authors' code)
        min_beta: what a second component's β below 1 becomes (the authors' code: 1.01); None leaves it free

    Attributes:
        alpha_, beta_, weight_: two numbers each, true negatives first
        gain_: mean log-likelihood over that of a single beta distribution, in nats
        degenerate_: whether the fit was given up
    """

    def __init__(
        self,
        prior: float = 0.05,
        iterations: int = 10,
        true_component: Literal["mean", "weight", "first"] = "mean",
        min_beta: float | None = None,
    ) -> None:
        in_range("prior", prior, 0.001, 0.999, "the paper uses 0.01 to 0.25")
        in_range("iterations", iterations, 1)
        if true_component not in ("mean", "weight", "first"):
            raise InputError(f"unknown rule `{true_component}` for the true component", "known: mean, weight, first")
        self.prior = prior
        self.iterations = iterations
        self.true_component = true_component
        self.min_beta = min_beta

    def fit(self, x: Any) -> BetaMixture:
        """Fit to similarities in [0, 1] of any shape."""
        values = np.asarray(x, dtype=np.float64).ravel()
        finite = values[np.isfinite(values)]
        if finite.size and (finite.min() < 0 or finite.max() > 1):
            raise InputError("similarities need to be in [0, 1]", "Min-Max normalise them first")
        self.gain_ = 0.0
        if finite.size < values.size:
            return self._give_up(f"{values.size - finite.size} of {values.size} are not finite")
        if finite.size < 4 or np.ptp(finite) < EDGE:
            return self._give_up("they are all equal, or fewer than four")
        self._expectation_maximization(np.clip(finite, EDGE, 1 - EDGE))
        apart = self.gain_ > LEAST_GAIN and self._distance() > LEAST_DISTANCE
        if not apart and self.true_component != "first":
            return self._give_up("they have one mode, two components do not tell them apart")
        return self

    def predict_proba(self, x: Similarities) -> Similarities:
        """p(true negative | s) and p(false negative | s) in two columns (Eq. 9), as array or tensor like `x`."""
        if isinstance(x, Tensor):
            true = self.posterior(x.reshape(-1).double())
            return torch.stack([true, 1 - true], dim=1)
        true = self.posterior(torch.as_tensor(np.asarray(x, dtype=np.float64).ravel())).numpy()
        return np.stack([true, 1 - true], axis=1)

    def posterior(self, s: Tensor) -> Tensor:
        """p(true negative | s), elementwise: a logistic function of log s and log(1-s)."""
        if not hasattr(self, "degenerate_"):
            raise InputError("the mixture is not fitted", "call fit(similarities) first")
        if self.degenerate_:
            return torch.ones_like(s)
        constant, log_s, log_rest = self._log_odds()
        s = s.clamp(EDGE, 1 - EDGE)
        return torch.log(s).mul_(log_s).add_(torch.log1p(-s), alpha=log_rest).add_(constant).sigmoid_()

    def density(self, s: Floats) -> Floats:
        """λ_c Beta(s | α_c, β_c) of each component, [2, n]: true negatives first (Eq. 3, 4)."""
        return np.exp(_log_density(_logs(np.clip(s, EDGE, 1 - EDGE)), self.alpha_, self.beta_, self.weight_))

    def _expectation_maximization(self, s: Floats) -> None:
        pieces = [(piece, _logs(piece)) for piece in np.array_split(s, -(-s.size // PIECE))]
        self.alpha_, self.beta_ = np.array([1.0, 2.0]), np.array([2.0, 1.0])
        self.weight_ = np.array([1 - self.prior, self.prior])
        for _ in range(self.iterations):
            sums = np.sum([_power_sums(piece, self._shares(logs)) for piece, logs in pieces], axis=0)
            self.alpha_, self.beta_ = _moments(*sums)
            if self.beta_[1] < 1 and self.min_beta is not None:
                self.beta_[1] = self.min_beta
            self.weight_ = sums[0] / sums[0].sum()  # Eq. 8
        alone = _moments(*_power_sums(s, np.ones((1, s.size))))
        gains = [
            np.logaddexp(*_log_density(logs, self.alpha_, self.beta_, self.weight_)).sum()
            - _log_density(logs, *alone, np.ones(1)).sum()
            for _, logs in pieces
        ]
        self.gain_ = float(sum(gains) / s.size)
        order = self._true_first()
        self.alpha_, self.beta_, self.weight_ = self.alpha_[order], self.beta_[order], self.weight_[order]
        self.degenerate_ = False

    def _shares(self, logs: tuple[Floats, Floats]) -> Floats:
        """p(c | s), [2, n] (Eq. 5)."""
        log_joint = _log_density(logs, self.alpha_, self.beta_, self.weight_)
        first = expit(log_joint[0] - log_joint[1])
        shares: Floats = np.maximum(np.stack([first, 1 - first]), TINY)
        return shares

    def _true_first(self) -> list[int]:
        mean = self.alpha_ / (self.alpha_ + self.beta_)
        by_rule = {"mean": int(mean.argmin()), "weight": int(self.weight_.argmax()), "first": 0}
        true = by_rule[self.true_component]
        return [true, 1 - true]

    def _distance(self) -> float:
        """Between the components' means, in pooled standard deviations."""
        total = self.alpha_ + self.beta_
        mean = self.alpha_ / total
        variance = mean * (1 - mean) / (total + 1)
        return float(abs(mean[0] - mean[1]) / np.sqrt(variance.mean()))

    def _give_up(self, reason: str) -> BetaMixture:
        message = f"no mixture fitted to the similarities, so every negative counts as true: {reason}"
        warnings.warn(message, ProgclWarning, stacklevel=3)
        self.alpha_ = self.beta_ = np.ones(2)
        self.weight_ = np.array([1.0, 0.0])
        self.degenerate_ = True
        return self

    def _log_odds(self) -> tuple[float, float, float]:
        """Constant and coefficients of log s and log(1-s) in log p(true | s) - log p(false | s)."""
        constant = np.log(self.weight_) - betaln(self.alpha_, self.beta_)
        true, false = np.stack([constant, self.alpha_, self.beta_], axis=1)
        return tuple((true - false).tolist())

    def to_tensor(self) -> Tensor:
        """The fit in one small tensor, for buffers and checkpoints."""
        numbers = [*self.alpha_, *self.beta_, *self.weight_, self.gain_, float(self.degenerate_)]
        return torch.tensor(numbers, dtype=torch.float64)

    def from_tensor(self, numbers: Tensor) -> BetaMixture:
        """Take over the fit that `to_tensor` wrote."""
        values = numbers.double().cpu().numpy()
        self.alpha_, self.beta_, self.weight_ = values[0:2], values[2:4], values[4:6]
        self.gain_, self.degenerate_ = float(values[6]), bool(values[7])
        return self


def _logs(s: Floats) -> tuple[Floats, Floats]:
    return np.log(s), np.log1p(-s)


def _log_density(logs: tuple[Floats, Floats], alpha: Floats, beta: Floats, weight: Floats) -> Floats:
    """log λ_c + log Beta(s | α_c, β_c) from log s and log(1-s), one row a component (Eq. 3)."""
    log_s, log_rest = logs
    rows = [
        np.log(w) - betaln(a, b) + (a - 1) * log_s + (b - 1) * log_rest
        for a, b, w in zip(alpha, beta, weight, strict=True)
    ]
    return np.stack(rows)


def _power_sums(s: Floats, share: Floats) -> Floats:
    """Σ share, Σ share·s and Σ share·s² of each component, [3, c]."""
    return np.stack([share.sum(axis=1), share @ s, share @ s**2])


def _moments(total: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """α_c and β_c of the beta distributions with the weighted means and variances (Eq. 6, 7)."""
    mean = first / total
    variance = second / total - mean**2
    widest = mean * (1 - mean)  # no distribution on [0, 1] has more variance than a coin of this mean
    concentration = widest / np.clip(variance, TINY, widest * (1 - EDGE)) - 1
    return mean * concentration, (1 - mean) * concentration
