"""The sections on what becomes of learned vectors, and on the features of several hops beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from progcl.errors import InputError, in_range


@dataclass(frozen=True)
class HopsConfig:
    """Features without training: those of several hops side by side, with unit rows in each block, and their PCA.

    Args:
        powers: of the normalized adjacency, 0 for a node's own features
        beside: powers beside learned vectors that stand for a node's own features
        rank: singular vectors of the given features to keep; null chooses up to 512 by the number of nodes
        dim: principal components of all hops to keep; null keeps all
    """

    powers: list[int] = field(default_factory=lambda: [0, 1, 2, 4, 8])
    beside: list[int] = field(default_factory=lambda: [1, 2, 4])
    rank: int | None = None
    dim: int | None = 512

    def __post_init__(self) -> None:
        require_ascending("powers", self.powers)
        require_ascending("beside", self.beside)
        for name in ("rank", "dim"):
            if getattr(self, name) is not None:
                in_range(name, getattr(self, name), 1)


@dataclass(frozen=True)
class OutputConfig:
    """What becomes of the learned vectors: blocks side by side, each with unit rows.

    Args:
        smooth: powers of the normalized adjacency that the centered vectors are multiplied by, a block each; 0 is
            without smoothing, and an empty list takes the vectors as they are learned
        features: append the features of several hops, which need no training
        structure: append so many walk vectors of the graph, where nodes have features; 0 for none
        blocks: learned takes all of them; untrained leaves the learned vectors out; own is a node's own features
            alone; auto chooses, and weighs the learned vectors, by how well links that `method.holdout` keeps from
            training are predicted
        dim: reduce all blocks to so many principal components; null does not
        clusters: number of clusters that `progcl embed` adds to its tables and report; auto chooses, null is none
    """

    smooth: list[int] = field(default_factory=list)
    features: bool = False
    structure: int = 0
    blocks: Literal["learned", "untrained", "own", "auto"] = "learned"
    dim: int | None = None
    clusters: int | Literal["auto"] | None = None

    def __post_init__(self) -> None:
        in_range("structure", self.structure, 0)
        if self.blocks in ("untrained", "auto") and not self.features:
            message = f"with `blocks` {self.blocks} there needs to be something beside the learned vectors"
            raise InputError(message, "set --output.features true")
        if self.smooth:
            require_ascending("smooth", self.smooth)
        if self.dim is not None:
            in_range("dim", self.dim, 1)
        if isinstance(self.clusters, int):
            in_range("clusters", self.clusters, 1, hint="a whole number, or auto")


def require_ascending(name: str, hops: list[int]) -> None:
    """Raise `InputError` unless these are different powers of the adjacency, ascending."""
    if not hops or min(hops) < 0 or hops != sorted(set(hops)):
        raise InputError(f"`{name}` must rise from 0 or more (got {hops})", 'for example "[0, 1, 2, 4]"')
