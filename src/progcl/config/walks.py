"""Options of methods that learn from random walks."""

from __future__ import annotations

from dataclasses import dataclass

from progcl.config.abilities import MethodOptions
from progcl.errors import in_range


@dataclass(frozen=True)
class DeepWalkOptions(MethodOptions):
    """DeepWalk; an epoch is one walk from every node.

    Args:
        walk_length: nodes of a walk
        window: largest distance along a walk between a node and one that it predicts
        negatives: weight of the noise, as a number of drawn nodes for each predicted one
    """

    name: str = "deepwalk"
    walk_length: int = 40
    window: int = 10
    negatives: int = 5
    supports = frozenset({"batches", "weights"})

    def __post_init__(self) -> None:
        in_range("walk_length", self.walk_length, 2, hint="DeepWalk uses 40, node2vec 80")
        in_range("window", self.window, 1, hint="DeepWalk and node2vec use 10")
        in_range("negatives", self.negatives, 1, hint="word2vec uses 5 to 20")


@dataclass(frozen=True)
class DeepWalkFeaturesOptions(DeepWalkOptions):
    """DeepWalk beside the features, with DeepWalk's options."""

    name: str = "deepwalk-features"


@dataclass(frozen=True)
class Node2VecOptions(DeepWalkOptions):
    """node2vec.

    Args:
        p: return parameter: above 1, walks seldom step back to the node before
        q: in-out parameter: above 1, walks keep to the neighbors of the node before; below 1, they go further
    """

    name: str = "node2vec"
    walk_length: int = 80
    p: float = 1.0
    q: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("p", "q"):
            in_range(name, getattr(self, name), 0.01, 100, "node2vec tries 0.25 to 4")
