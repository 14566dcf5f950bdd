"""Two-component mixtures over similarities: which negatives are probably false (Eq. 3-9 of the paper)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from scipy.special import betaln, expit
from torch import Tensor

from progcl.errors import InputError, ProgclWarning, in_range
from progcl.estimators import Estimator, FitsAndPredicts, Floats, Oracle, Random, Tabulated, Tuned
from progcl.registry import build, find

if TYPE_CHECKING:
    from typing_extensions import Self

EDGE = 1e-6  # similarities are kept this far from 0 and 1, where log s and log(1-s) are infinite
TINY = 1e-12
PIECE = 2**18  # similarities at a time: of all of them only the logarithms are kept beside
LEAST_GAIN = 1e-4  # nats per similarity that a second component has to earn
LEAST_DISTANCE = 0.5  # standard deviations between two components' means, for one to be "the lower"

Rule = Literal["mean", "weight", "first"]


class Mixture(Estimator):
    """Two components on [0, 1], one of true and one of false negatives.

    When two components say no more than one does (all values equal, a single mode, too few finite values),
    a warning is given, `degenerate_` is true and every negative counts as a true one.

    Args:
        prior: w_init, initial weight of the false negatives' component
        iterations: I, the number of EM steps
        true_component: what marks the true negatives: the smaller `mean`, the larger `weight`, or `first`, the
            component that starts low, which takes any fit as it comes (the authors' code)

    Attributes:
        gain_: mean log-likelihood over that of a single component, in nats
        degenerate_: whether the fit was given up
    """

    PARAMETERS: tuple[str, ...]  # of two numbers each, true negatives first
    gain_: float

    def __init__(self, prior: float = 0.05, iterations: int = 10, true_component: Rule = "mean") -> None:
        in_range("prior", prior, 0.001, 0.999, "the paper uses 0.01 to 0.25")
        in_range("iterations", iterations, 1)
        if true_component not in ("mean", "weight", "first"):
            raise InputError(f"unknown rule `{true_component}` for the true component", "known: mean, weight, first")
        self.prior = prior
        self.iterations = iterations
        self.true_component = true_component

    def fit(self, x: Any) -> Self:
        """Fit to similarities in [0, 1] of any shape."""
        values = np.asarray(x, dtype=np.float64).ravel()
        finite = values[np.isfinite(values)]
        if finite.size and (finite.min() < 0 or finite.max() > 1):
            raise InputError("similarities need to be in [0, 1]", "Min-Max normalise them first")
        self.gain_ = 0.0
        self.degenerate_ = False
        if finite.size < values.size:
            return self._give_up(f"{values.size - finite.size} of {values.size} are not finite")
        if finite.size < 4 or np.ptp(finite) < EDGE:
            return self._give_up("they are all equal, or fewer than four")
        self.maximize(np.clip(finite, EDGE, 1 - EDGE))
        self._put_true_first()
        apart = self.gain_ > LEAST_GAIN and self._distance() > LEAST_DISTANCE
        if not apart and self.true_component != "first":
            return self._give_up("they have one mode, two components do not tell them apart")
        return self

    def maximize(self, s: Floats) -> None:
        """Expectation maximisation: set the parameters and `gain_`."""
        raise NotImplementedError

    def moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each component."""
        raise NotImplementedError

    def log_odds(self, s: Tensor) -> Tensor:
        """log p(true | s) - log p(false | s)."""
        raise NotImplementedError

    def density(self, s: Floats) -> Floats:
        """Weighted density of each component, [2, n]: true negatives first."""
        raise NotImplementedError

    def posterior(self, s: Tensor) -> Tensor:
        """p(true negative | s), elementwise (Eq. 9)."""
        if not hasattr(self, "degenerate_"):
            raise InputError("the mixture is not fitted", "call fit(similarities) first")
        return torch.ones_like(s) if self.degenerate_ else self.log_odds(s.clamp(EDGE, 1 - EDGE)).sigmoid_()

    def facts(self) -> dict[str, Any]:
        """Parameters, gain, and whether the fit was given up."""
        parameters = {name.rstrip("_"): getattr(self, name).tolist() for name in self.PARAMETERS}
        return {**parameters, "gain": self.gain_, "degenerate": self.degenerate_}

    def to_tensor(self) -> Tensor:
        """The fit in one small tensor, for buffers and checkpoints."""
        parameters = np.concatenate([getattr(self, name) for name in self.PARAMETERS])
        return torch.tensor([*parameters, self.gain_, float(self.degenerate_)], dtype=torch.float64)

    def from_tensor(self, numbers: Tensor) -> Self:
        """Take over the fit that `to_tensor` wrote."""
        values = numbers.double().cpu().numpy()
        for number, name in enumerate(self.PARAMETERS):
            setattr(self, name, values[2 * number : 2 * number + 2])
        self.gain_ = float(values[-2])
        return super().from_tensor(numbers)

    def _put_true_first(self) -> None:
        mean, _ = self.moments()
        weight = getattr(self, self.PARAMETERS[-1])
        by_rule = {"mean": int(mean.argmin()), "weight": int(weight.argmax()), "first": 0}
        true = by_rule[self.true_component]
        for name in self.PARAMETERS:
            setattr(self, name, getattr(self, name)[[true, 1 - true]])

    def _distance(self) -> float:
        """Between the components' means, in pooled standard deviations."""
        mean, variance = self.moments()
        return float(abs(mean[0] - mean[1]) / np.sqrt(variance.mean()))

    def _give_up(self, reason: str) -> Self:
        message = f"no mixture fitted to the similarities, so every negative counts as true: {reason}"
        warnings.warn(message, ProgclWarning, stacklevel=3)
        for name in self.PARAMETERS:
            setattr(self, name, np.ones(2))
        setattr(self, self.PARAMETERS[-1], np.array([1.0, 0.0]))
        self.degenerate_ = True
        return self


class BetaMixture(Mixture):
    """Two beta distributions on [0, 1], one of true and one of false negatives, fitted by EM with moments.

    p(s) = Σ_c λ_c Beta(s | α_c, β_c)                                        (Eq. 3, 4)

    E-step: p(c | s) by Bayes' rule (Eq. 5). M-step: weighted mean and variance (Eq. 6), their moment
    estimates of α and β (Eq. 7), and λ (Eq. 8). Moment matching is not maximum likelihood: the likelihood
    need not rise at every step. p(true | s) is a logistic function of log s and log(1-s).

    Args:
        prior: w_init, initial weight of the false negatives' component
        iterations: I, the number of EM steps
        true_component: what marks the true negatives: the smaller `mean`, the larger `weight`, or `first`
        min_beta: what a second component's β below 1 becomes (the authors' code: 1.01); None leaves it free

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
    ) -> None:
        super().__init__(prior, iterations, true_component)
        self.min_beta = min_beta

    def log_odds(self, s: Tensor) -> Tensor:
        """Linear in log s and log(1-s)."""
        constant, log_s, log_rest = self._log_odds()
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
        """EM by moments (Eq. 5-8)."""
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

    def _shares(self, logs: tuple[Floats, Floats]) -> Floats:
        """p(c | s), [2, n] (Eq. 5)."""
        log_joint = _log_density(logs, self.alpha_, self.beta_, self.weight_)
        first = expit(log_joint[0] - log_joint[1])
        shares: Floats = np.maximum(np.stack([first, 1 - first]), TINY)
        return shares

    def _log_odds(self) -> tuple[float, float, float]:
        """Constant and coefficients of log s and log(1-s) in log p(true | s) - log p(false | s)."""
        constant = np.log(self.weight_) - betaln(self.alpha_, self.beta_)
        true, false = np.stack([constant, self.alpha_, self.beta_], axis=1)
        return tuple((true - false).tolist())


class GaussianMixture(Mixture):
    """Two normal distributions in place of the beta ones: the paper's ablation, by scikit-learn's EM.

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
        """EM from the quartiles, for as many steps as asked for."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.mixture import GaussianMixture as Fit

        model = Fit(
            2,
            covariance_type="diag",
            tol=0,
            max_iter=self.iterations,
            weights_init=[1 - self.prior, self.prior],
            means_init=np.quantile(s, [0.25, 0.75])[:, None],
            precisions_init=np.full((2, 1), 1 / s.var()),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # I steps are what was asked for
            model.fit(s[:, None])
        self.mean_, self.sd_ = model.means_[:, 0], np.sqrt(model.covariances_[:, 0])
        self.weight_ = model.weights_
        alone = -0.5 * np.log(2 * np.pi * s.var()) - 0.5
        self.gain_ = float(model.score(s[:, None]) - alone)


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


ESTIMATORS: dict[str, Callable[..., Estimator]] = {
    "beta": BetaMixture,
    "gaussian": GaussianMixture,
    "random": Random,
    "tuned": Tuned,
    "oracle": Oracle,
}


def make_estimator(kind: str | FitsAndPredicts, **options: Any) -> Estimator:
    """An estimator by its name, with those of the options that it has, or a user's own."""
    made: Any = build(find(ESTIMATORS, kind, "estimator"), options) if isinstance(kind, str) else kind
    if isinstance(made, type) or not (hasattr(made, "fit") and hasattr(made, "predict_proba")):
        raise InputError(f"`estimator` needs fit and predict_proba (got {made!r})", f"known: {', '.join(ESTIMATORS)}")
    return made if isinstance(made, Estimator) else Tabulated(made)
