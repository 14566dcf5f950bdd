"""Two-component mixtures of similarities, which tell true from false negatives (Eq. 3-9 of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from progcl.config.miners import ProGCLWeightOptions
from progcl.errors import InputError, warn
from progcl.posteriors.base import Floats, Posterior

if TYPE_CHECKING:
    from typing_extensions import Self

EDGE = 1e-12  # double precision is clipped this far from 0 and 1, where log s and log(1-s) are infinite
SINGLE_EDGE = 1e-6  # the same for single precision, in which 1 - 1e-12 is 1
MIN_RANGE = 1e-6  # of similarities that are not all equal
MIN_GAIN = 1e-4  # nats per similarity that a second component has to add
MIN_DISTANCE = 0.5  # standard deviations between the components' means, for one to be the lower

Rule = Literal["mean", "weight", "first"]


class Mixture(Posterior):
    """Two components on [0, 1], one of true and one of false negatives.

    Where no mixture can be fitted (all values equal, too few, or not finite), `fit` warns, `degenerate_` is true and
    every negative counts as a true one. Where two components fit no better than one, EM goes on as in the paper, unless
    `require_two_modes` is set: then it is the same.

    Args:
        prior: w_init, initial weight of the false negatives' component
        iterations: I, the largest number of EM steps
        true_component: what marks the true negatives: the smaller `mean`, the larger `weight`, or `first`, the
            component initialized low (the authors' code)
        tol: EM stops once the mean log-likelihood changes by less; with 0, of beta mixtures once no parameter changes
        require_two_modes: give up a mixture whose components cannot be told apart, which is not in the paper

    Attributes:
        n_iter_: EM steps that were made
        gain_: mean log-likelihood minus that of a single component, in nats
        degenerate_: whether the two components cannot be told apart
    """

    PARAMETERS: tuple[str, ...]  # of two numbers each, true negatives first
    gain_: float
    n_iter_: int

    def __init__(
        self,
        prior: float = 0.05,
        iterations: int = 10,
        true_component: Rule = "mean",
        tol: float = 0.0,
        require_two_modes: bool = False,
    ) -> None:
        ProGCLWeightOptions(prior=prior, iterations=iterations, tol=tol)  # raises if a value is out of range
        if true_component not in ("mean", "weight", "first"):
            raise InputError(f"unknown rule `{true_component}` for the true component", "known: mean, weight, first")
        self.prior = prior
        self.iterations = iterations
        self.true_component = true_component
        self.tol = tol
        self.require_two_modes = require_two_modes

    def fit(self, x: Any) -> Self:
        """Fit to similarities in [0, 1] of any shape.

        Raises:
            InputError: a similarity is outside [0, 1]
        """
        values = np.asarray(x, dtype=np.float64).ravel()
        finite = values[np.isfinite(values)]
        if finite.size and (finite.min() < 0 or finite.max() > 1):
            raise InputError("similarities need to be in [0, 1]", "Min-Max normalize them first")
        self.gain_ = 0.0
        self.degenerate_ = False
        if finite.size < values.size:
            return self._set_degenerate(f"{values.size - finite.size} of {values.size} are not finite")
        if finite.size < 4 or np.ptp(finite) < MIN_RANGE:
            return self._set_degenerate("they are all equal, or fewer than four")
        self.maximize(np.clip(finite, EDGE, 1 - EDGE))
        self._order_components()
        if self.require_two_modes and self.is_unimodal:
            return self._set_degenerate("they have one mode, two components do not tell them apart")
        return self

    @property
    def is_unimodal(self) -> bool:
        """Whether a second component adds next to nothing, or its mean lies close to the first one's."""
        return not (self.gain_ > MIN_GAIN and self._distance() > MIN_DISTANCE)

    def maximize(self, s: Floats) -> None:
        """Expectation-maximization: set the parameters, `gain_` and `n_iter_`."""
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
        """p(true negative | s), elementwise (Eq. 9).

        Raises:
            InputError: the mixture is not fitted
        """
        if not hasattr(self, "degenerate_"):
            raise InputError("the mixture is not fitted", "call fit(similarities) first")
        edge = EDGE if s.dtype == torch.float64 else SINGLE_EDGE
        return torch.ones_like(s) if self.degenerate_ else self.log_odds(s.clamp(edge, 1 - edge)).sigmoid_()

    def facts(self) -> dict[str, Any]:
        """Parameters, gain, and whether there is one mode only, or no fit at all."""
        parameters = {name.rstrip("_"): getattr(self, name).tolist() for name in self.PARAMETERS}
        return {**parameters, "gain": self.gain_, "unimodal": self.is_unimodal, "degenerate": self.degenerate_}

    def to_tensor(self) -> Tensor:
        """Parameters, `gain_` and `degenerate_`, [k]."""
        parameters = np.concatenate([getattr(self, name) for name in self.PARAMETERS])
        return torch.tensor([*parameters, self.gain_, float(self.degenerate_)], dtype=torch.float64)

    def from_tensor(self, numbers: Tensor) -> Self:
        """Restore the fit that `to_tensor` wrote."""
        values = numbers.double().cpu().numpy()
        for number, name in enumerate(self.PARAMETERS):
            setattr(self, name, values[2 * number : 2 * number + 2])
        self.gain_ = float(values[-2])
        return super().from_tensor(numbers)

    def _order_components(self) -> None:
        """Put the true negatives' component first."""
        mean, _ = self.moments()
        weight = getattr(self, self.PARAMETERS[-1])
        by_rule = {"mean": int(mean.argmin()), "weight": int(weight.argmax()), "first": 0}
        true = by_rule[self.true_component]
        for name in self.PARAMETERS:
            setattr(self, name, getattr(self, name)[[true, 1 - true]])

    def _distance(self) -> float:
        """Distance between the components' means, in pooled standard deviations."""
        mean, variance = self.moments()
        return float(abs(mean[0] - mean[1]) / np.sqrt(variance.mean()))

    def _set_degenerate(self, reason: str) -> Self:
        message = f"no mixture fitted to the similarities, so that this is plain InfoNCE from here on: {reason}"
        warn(message, stacklevel=3)
        for name in self.PARAMETERS:
            setattr(self, name, np.ones(2))
        setattr(self, self.PARAMETERS[-1], np.array([1.0, 0.0]))
        self.degenerate_ = True
        return self
