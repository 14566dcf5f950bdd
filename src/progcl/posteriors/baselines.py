"""Posteriors that are not fitted to the similarities: random, tuned by hand, or from the labels."""

from __future__ import annotations

import torch
from torch import Tensor

from progcl.errors import InputError
from progcl.posteriors.base import Posterior
from progcl.seeding import HASH_RANGE, hash_pairs


class Tuned(Posterior):
    """p_t = 1 - s: the more similar, the less probably a true negative (the paper's ablation)."""

    def posterior(self, s: Tensor) -> Tensor:
        """1 - s."""
        return 1 - s


class Random(Posterior):
    """p_r: uniform in [0, 1] and independent of the similarity, one number per pair of nodes (the paper's ablation).

    The number is a hash of the two nodes, so that it is the same in every step without being stored.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def posterior(self, s: Tensor) -> Tensor:
        """Uniform numbers, the same for the same shape on every device."""
        generator = torch.Generator().manual_seed(self.seed)
        return torch.rand(s.shape, generator=generator, dtype=s.dtype).to(s.device)

    def for_pairs(self, s: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """A hash of the two nodes, in [0, 1)."""
        return hash_pairs(self.seed, first, second).to(s.dtype).div_(HASH_RANGE).expand_as(s)


class Oracle(Posterior):
    """1 for two nodes of different classes, 0 for two of one class: perfect knowledge.

    It uses labels, and serves analysis only.

    Args:
        classes: the class of every node [N]; a negative number is an unknown class, unlike any other

    Raises:
        InputError: there are no classes
    """

    uses_labels = True

    def __init__(self, classes: Tensor | None = None) -> None:
        if classes is None:
            raise InputError("the oracle needs labels", "estimator=Oracle(labels); it is for analysis only")
        self.classes = torch.as_tensor(classes)

    def posterior(self, s: Tensor) -> Tensor:
        """Always raises `InputError`: the answer depends on the nodes."""
        raise InputError("the oracle knows nodes, not similarities", "use for_pairs(s, first, second)")

    def for_pairs(self, s: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """1 where the classes differ or are unknown, else 0.

        Raises:
            InputError: a node has no entry in `classes`
        """
        classes = self.classes.to(s.device)
        if len(classes) <= max(int(first.max()), int(second.max())):
            raise InputError(f"the oracle has labels for {len(classes)} nodes, the graph has more")
        own, other = classes[first], classes[second]
        return ((own != other) | (own < 0)).to(s.dtype).expand_as(s)
