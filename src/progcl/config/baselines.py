"""Options of systems to compare with that reconstruct edges or draw neighbors together, without a miner."""

from __future__ import annotations

from dataclasses import dataclass

from progcl.config.abilities import HalfHopOptions, MethodOptions
from progcl.errors import in_range


@dataclass(frozen=True)
class GaeOptions(HalfHopOptions):
    """Graph auto-encoder.

    Args:
        latent: width of the embedding; null for `encoder.hidden`, the width of the layer before
    """

    name: str = "gae"
    latent: int | None = None
    supports = frozenset({"inductive"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.latent is not None:
            in_range("latent", self.latent, 1, hint="GAE uses 16")


@dataclass(frozen=True)
class VgaeOptions(GaeOptions):
    """Variational graph auto-encoder, with the options of the plain one."""

    name: str = "vgae"


@dataclass(frozen=True)
class ColesOptions(MethodOptions):
    """COLES.

    Args:
        hops: K, the largest power of the normalized adjacency that smooths the features
        negatives: random edges drawn for each node, in each step
        negative_weight: λ, weight of the random edges
    """

    name: str = "coles"
    hops: int = 8
    negatives: int = 2
    negative_weight: float = 0.9
    supports = frozenset({"inductive", "weights"})

    def __post_init__(self) -> None:
        in_range("hops", self.hops, 0, hint="COLES uses 8")
        in_range("negatives", self.negatives, 1, hint="COLES uses 2")
        in_range("negative_weight", self.negative_weight, 0, 10, "COLES uses 0.9")


@dataclass(frozen=True)
class GmiOptions(HalfHopOptions):
    """GMI.

    Args:
        features: α, weight of what an embedding tells of its node's features
        neighbors: β, weight of what it tells of the neighbors' features
        edges: γ, weight of the edges
        negatives: other nodes drawn for each node
        pairs: largest number of edges, and of pairs without one, that are drawn in a step
    """

    name: str = "gmi"
    features: float = 0.8
    neighbors: float = 1.0
    edges: float = 1.0
    negatives: int = 5
    pairs: int = 2**15
    supports = frozenset({"inductive"})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("features", "neighbors", "edges"):
            in_range(name, getattr(self, name), 0, 10, "GMI uses 0.8 for features, and 1")
        in_range("negatives", self.negatives, 1, hint="GMI uses 5")
        in_range("pairs", self.pairs, 1)
