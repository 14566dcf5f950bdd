"""p(true negative | s): anything with `fit` and `predict_proba`, and the table of names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from progcl.errors import InputError
from progcl.posteriors.base import Posterior, PosteriorLike, Tabulated
from progcl.posteriors.baselines import Oracle, Random, Tuned
from progcl.posteriors.beta import BetaMixture
from progcl.posteriors.gaussian import GaussianMixture
from progcl.posteriors.mixture import Mixture
from progcl.registry import build, find

__all__ = [
    "POSTERIORS",
    "BetaMixture",
    "GaussianMixture",
    "Mixture",
    "Oracle",
    "Posterior",
    "PosteriorLike",
    "Random",
    "Tabulated",
    "Tuned",
    "make_posterior",
]


def make_posterior(kind: str | PosteriorLike, **options: Any) -> Posterior:
    """A posterior by its name, with those of the options that it has, or a user's own estimator.

    Raises:
        InputError: the name is unknown, or the object has no `fit` and `predict_proba`
    """
    found: Any = find(POSTERIORS, kind, "estimator") if isinstance(kind, str) else kind
    is_estimator = hasattr(found, "fit") and hasattr(found, "predict_proba")
    if not is_estimator or isinstance(kind, type):
        known = f"known: {', '.join(POSTERIORS)}"
        raise InputError(f"`estimator` needs fit and predict_proba (got {found!r})", known)
    estimator = build(found, options) if isinstance(kind, str) else found
    return estimator if isinstance(estimator, Posterior) else Tabulated(estimator)


POSTERIORS: dict[str, Callable[..., Posterior]] = {
    "beta": BetaMixture,
    "gaussian": GaussianMixture,
    "random": Random,
    "tuned": Tuned,
    "oracle": Oracle,
}
