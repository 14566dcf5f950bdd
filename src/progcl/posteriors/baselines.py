"""p(true | s) that is not fitted to the similarities: random, tuned by hand, or from the labels."""

from __future__ import annotations

import torch
from torch import Tensor

from progcl.errors import InputError
from progcl.posteriors.base import Posterior
from progcl.seeding import HASH_RANGE, hash_pairs


class Tuned(Posterior):
    """p_t = 1 - s: the more similar, the less probably a true negative, without any fit."""

    def posterior(self, s: Tensor) -> Tensor:
        """1 - s."""
        return 1 - s


class Random(Posterior):
    """p_r: uniform in [0, 1], whatever the similarity; drawn once for each pair of nodes.

    A pair's number is a hash of the two nodes, so that it stays the same without being kept.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def posterior(self, s: Tensor) -> Tensor:
        """The same numbers for the same shape."""
        generator = torch.Generator(s.device).manual_seed(self.seed)
        return torch.rand(s.shape, generator=generator, device=s.device, dtype=s.dtype)

    def for_pairs(self, s: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """A hash of the two nodes."""
        return hash_pairs(self.seed, first, second).double().div_(HASH_RANGE).to(s.dtype).expand_as(s)


class Oracle(Posterior):
    """1 for two nodes of different classes, 0 for two of one class: what perfect knowledge would say.

    It uses labels, so it serves analysis only.

    Args:
        classes: the class of every node [N]; a negative number is an unknown class, unlike any other
    """

    def __init__(self, classes: Tensor | None = None) -> None:
        if classes is None:
            raise InputError("the oracle needs labels", "estimator=Oracle(labels); it is for analysis only")
        self.classes = torch.as_tensor(classes)

    def posterior(self, s: Tensor) -> Tensor:
        """No answer: it depends on the nodes."""
        raise InputError("the oracle knows nodes, not similarities", "ask for pairs of nodes with of_pairs")

    def for_pairs(self, s: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Whether the labels differ."""
        classes = self.classes.to(s.device)
        if len(classes) <= max(int(first.max()), int(second.max())):
            raise InputError(f"the oracle has labels for {len(classes)} nodes, the graph has more")
        one, other = classes[first], classes[second]
        return ((one != other) | (one < 0)).to(s.dtype).expand_as(s)
