"""p(true negative | s): the interface of posteriors, and an adapter for a user's own estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from progcl.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Self

TABLE_STEPS = 2**12  # of s in [0, 1], in the table of a user's estimator

Floats = NDArray[np.float64]
Similarities = TypeVar("Similarities", Floats, Tensor)


class PosteriorLike(Protocol):
    """What a user's own estimator needs; column 0 of `predict_proba` is p(true negative)."""

    def fit(self, x: Any) -> Any:
        """Fit to normalized similarities [n, 1]."""

    def predict_proba(self, x: Any) -> Any:
        """Probabilities [n, 2] of similarities [n, 1]."""


class Posterior:
    """Base class: the probability that a negative is a true one, given its similarity in [0, 1] or the two nodes.

    Attributes:
        uses_labels: whether the answer depends on labels
        degenerate_: whether the fit cannot tell negatives apart, so that every negative counts as a true one
    """

    uses_labels: bool = False
    degenerate_: bool

    def fit(self, x: Any) -> Self:
        """Fit to a sample of normalized similarities of any shape."""
        self.degenerate_ = False
        return self

    def posterior(self, s: Tensor) -> Tensor:
        """p(true negative | s), elementwise."""
        raise NotImplementedError

    def for_pairs(self, s: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The same for nodes `first` of view 1 and `second` of view 2, which broadcast to the shape of s."""
        return self.posterior(s)

    def predict_proba(self, x: Similarities) -> Similarities:
        """p(true negative | s) and p(false negative | s) in two columns [n, 2] (Eq. 9), as array or tensor like `x`."""
        if isinstance(x, Tensor):
            true = self.posterior(x.reshape(-1).double())
            return torch.stack([true, 1 - true], dim=1)
        true = self.posterior(torch.as_tensor(np.asarray(x, dtype=np.float64).ravel())).numpy()
        return np.stack([true, 1 - true], axis=1)

    def facts(self) -> dict[str, Any]:
        """The fit in plain numbers, for logs and reports."""
        return {"degenerate": self.degenerate_}

    def to_tensor(self) -> Tensor:
        """The fit as one small tensor [k] on the CPU, k ≥ 1, for checkpoints; the last number is `degenerate_`."""
        return torch.tensor([float(self.degenerate_)], dtype=torch.float64)

    def from_tensor(self, numbers: Tensor) -> Self:
        """Restore the fit that `to_tensor` wrote."""
        self.degenerate_ = bool(numbers[-1])
        return self


class Tabulated(Posterior):
    """A user's estimator, evaluated after its fit at equal steps of s, and interpolated linearly in between."""

    def __init__(self, estimator: PosteriorLike) -> None:
        self.estimator = estimator
        self.table = torch.ones(TABLE_STEPS + 1, dtype=torch.float64)

    def fit(self, x: Any) -> Self:
        """Fit the estimator, and tabulate its answers.

        Raises:
            InputError: `predict_proba` does not return two columns of probabilities
        """
        self.estimator.fit(np.asarray(x, dtype=np.float64).reshape(-1, 1))
        grid = np.linspace(0, 1, TABLE_STEPS + 1)[:, None]
        answer = np.asarray(self.estimator.predict_proba(grid), dtype=np.float64)
        if answer.shape != (TABLE_STEPS + 1, 2) or not ((answer >= 0) & (answer <= 1)).all():
            name = type(self.estimator).__name__
            message = f"`{name}.predict_proba` needs to give two columns of probabilities (got {answer.shape})"
            raise InputError(message, "column 0 is p(true negative), column 1 p(false negative)")
        self.table = torch.from_numpy(answer[:, 0].copy())
        return super().fit(x)

    def posterior(self, s: Tensor) -> Tensor:
        """Linear interpolation between the two nearest entries of the table."""
        table = self.table.to(s)
        position = s * TABLE_STEPS
        below = position.floor().clamp_(0, TABLE_STEPS - 1)
        index = below.long()
        return torch.lerp(table[index], table[index + 1], position.sub_(below))

    def to_tensor(self) -> Tensor:
        """The table and `degenerate_`."""
        return torch.cat([self.table, super().to_tensor()])

    def from_tensor(self, numbers: Tensor) -> Self:
        """Restore the table."""
        self.table = numbers[:-1].cpu()
        return super().from_tensor(numbers)
