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
    "Estimator",
    "GaussianMixture",
    "Mixture",
    "Oracle",
    "Random",
    "Tabulated",
    "Tuned",
    "make_posterior",
]
POSTERIORS: dict[str, Callable[..., Posterior]] = {
    "beta": BetaMixture,
    "gaussian": GaussianMixture,
    "random": Random,
    "tuned": Tuned,
    "oracle": Oracle,
}


def make_posterior(kind: str | PosteriorLike, **options: Any) -> Posterior:
    """An estimator by its name, with those of the options that it has, or a user's own."""
    made: Any = build(find(POSTERIORS, kind, "estimator"), options) if isinstance(kind, str) else kind
    if isinstance(made, type) or not (hasattr(made, "fit") and hasattr(made, "predict_proba")):
        raise InputError(f"`estimator` needs fit and predict_proba (got {made!r})", f"known: {', '.join(POSTERIORS)}")
    return made if isinstance(made, Posterior) else Tabulated(made)
