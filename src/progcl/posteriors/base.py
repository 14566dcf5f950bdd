"""p(true negative | s): what ProGCL asks of an estimator, and those that fit nothing to the similarities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from progcl.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Self

Floats = NDArray[np.float64]


Similarities = TypeVar("Similarities", Floats, Tensor)


GRID = 2**12  # steps of the table that stands for a foreign estimator


class PosteriorLike(Protocol):
    """What a user's own estimator needs; column 0 of `predict_proba` is p(true negative)."""

    def fit(self, x: Any) -> Any:
        """Look at normalised similarities [n, 1]."""

    def predict_proba(self, x: Any) -> Any:
        """Probabilities [n, 2] of similarities [n, 1]."""


class Posterior:
    """The base class: says of any similarity in [0, 1], or of two nodes, how probably the negative is a true one.

    Attributes:
        degenerate_: whether there was nothing to tell apart, so that every negative counts as a true one
    """

    degenerate_: bool

    def fit(self, x: Any) -> Self:
        """Look at a sample of normalised similarities, of any shape."""
        self.degenerate_ = False
        return self

    def posterior(self, s: Tensor) -> Tensor:
        """p(true negative | s), elementwise."""
        raise NotImplementedError

    def for_pairs(self, s: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The same for node `first` of view 1 and node `second` of view 2, which broadcast to the shape of s."""
        return self.posterior(s)

    def predict_proba(self, x: Similarities) -> Similarities:
        """p(true negative | s) and p(false negative | s) in two columns (Eq. 9), as array or tensor like `x`."""
        if isinstance(x, Tensor):
            true = self.posterior(x.reshape(-1).double())
            return torch.stack([true, 1 - true], dim=1)
        true = self.posterior(torch.as_tensor(np.asarray(x, dtype=np.float64).ravel())).numpy()
        return np.stack([true, 1 - true], axis=1)

    def facts(self) -> dict[str, Any]:
        """The fit in plain numbers, for logs."""
        return {"degenerate": self.degenerate_}

    def to_tensor(self) -> Tensor:
        """The fit in one small tensor, for buffers and checkpoints; not empty."""
        return torch.tensor([float(self.degenerate_)], dtype=torch.float64)

    def from_tensor(self, numbers: Tensor) -> Self:
        """Take over the fit that `to_tensor` wrote."""
        self.degenerate_ = bool(numbers[-1])
        return self


class Tabulated(Posterior):
    """A user's estimator, read off once after its fit at equal steps of s, and interpolated in between."""

    def __init__(self, estimator: PosteriorLike) -> None:
        self.estimator = estimator
        self.table = torch.ones(GRID + 1, dtype=torch.float64)

    def fit(self, x: Any) -> Self:
        """Fit it, and take the table."""
        self.estimator.fit(np.asarray(x, dtype=np.float64).reshape(-1, 1))
        answer = np.asarray(self.estimator.predict_proba(np.linspace(0, 1, GRID + 1)[:, None]), dtype=np.float64)
        if answer.shape != (GRID + 1, 2) or not (((answer >= 0) & (answer <= 1)).all()):
            name = type(self.estimator).__name__
            message = f"`{name}.predict_proba` needs to give two columns of probabilities (got {answer.shape})"
            raise InputError(message, "column 0 is p(true negative), column 1 p(false negative)")
        self.table = torch.from_numpy(answer[:, 0].copy())
        return super().fit(x)

    def posterior(self, s: Tensor) -> Tensor:
        """Between the two nearest entries of the table."""
        table = self.table.to(s)
        place = s * GRID
        below = place.floor().clamp_(0, GRID - 1)
        index = below.long()
        return torch.lerp(table[index], table[index + 1], place.sub_(below))

    def to_tensor(self) -> Tensor:
        """The table."""
        return torch.cat([self.table, super().to_tensor()])

    def from_tensor(self, numbers: Tensor) -> Self:
        """Take the table back."""
        self.table = numbers[:-1].cpu()
        return super().from_tensor(numbers)
