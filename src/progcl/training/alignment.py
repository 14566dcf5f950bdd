"""Embeddings of a graph that has grown, rotated onto those that an earlier run has of the same nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize, pad

from progcl.errors import InputError
from progcl.training.files import Embeddings

NEIGHBORS, MAX_COMPARED = 10, 1000  # nearest neighbors, and nodes whose neighbors before and after are compared
CHUNK_ROWS = 2**16
SEED = 0


@dataclass(frozen=True)
class Alignment:
    """An orthogonal map of embeddings, which leaves their lengths and angles as they are.

    Attributes:
        rotation: R [D, D]; embeddings that are narrower are padded with zeros
        facts: how far nodes of both runs have moved, in plain numbers
    """

    rotation: Tensor
    facts: dict[str, Any]

    @classmethod
    def fit(cls, embeddings: Tensor, names: list[str], earlier: Embeddings) -> Alignment:
        """R minimizing ‖A R − B‖ over the nodes of both runs, whose embeddings are A now, and B before.

        This is the orthogonal Procrustes problem (Schönemann: A generalized solution of the orthogonal Procrustes
        problem, 1966), solved by the SVD of AᵀB. Zeros are appended to A or B, whichever is narrower.

        Raises:
            InputError: if the runs have no node in common
        """
        places = {name: row for row, name in enumerate(names)}
        pairs = [(places[name], row) for row, name in enumerate(earlier.ids) if name in places]
        if not pairs:
            hint = f"names such as `{names[0]}` there, `{earlier.ids[0]}` here"
            raise InputError("the graph has no node of the earlier run, to which it could be aligned", hint)
        new, old = torch.tensor(pairs).unbind(dim=1)
        before = torch.from_numpy(earlier.vectors)[old]
        now = embeddings.cpu()[new]
        width = max(now.size(1), before.size(1))
        now, before = _widen(now, width), _widen(before, width)
        rotation = torch.from_numpy(_solve(now, before)).float()
        counts = {"nodes": len(pairs), "new": len(names) - len(pairs), "gone": len(earlier.ids) - len(pairs)}
        return cls(rotation, {**counts, **measure_shift(now @ rotation, before)})

    def apply(self, embeddings: Tensor) -> Tensor:
        """The embeddings [N, D] rotated."""
        return _widen(embeddings, len(self.rotation)) @ self.rotation.to(embeddings.device)


def measure_shift(now: Tensor, before: Tensor) -> dict[str, float]:
    """How far nodes have moved between two embeddings [N, D] of them.

    Returns:
        the mean `cosine` of a node's vectors, and the share of its ten nearest `neighbors`, by cosine among these
        nodes, that are the same, over at most a thousand nodes
    """
    chosen = torch.randperm(len(now), generator=torch.Generator().manual_seed(SEED))[:MAX_COMPARED]
    kept = [_nearest(vectors, chosen) for vectors in (now, before)]
    same = (kept[0][:, :, None] == kept[1][:, None, :]).any(dim=2).float()
    cosine = cosine_similarity(now, before, dim=1).mean()
    return {"cosine": round(float(cosine), 4), "neighbors": round(float(same.mean()) if same.numel() else 1.0, 4)}


def describe_alignment(facts: dict[str, Any]) -> str:
    """A sentence on how far nodes have moved."""
    nodes, new, gone = (f"{facts[name]:,}" for name in ("nodes", "new", "gone"))
    return (
        f"rotated onto the earlier embedding of {nodes} nodes ({new} are new, {gone} are gone): mean cosine"
        f" {facts['cosine']:.3f}, and {facts['neighbors']:.0%} of their {NEIGHBORS} nearest neighbors are the same"
    )


def _nearest(vectors: Tensor, nodes: Tensor) -> Tensor:
    """The ten nodes nearest to each of some nodes [n], by cosine: node numbers [n, 10]."""
    unit = normalize(vectors, dim=1)
    cosines = unit[nodes] @ unit.T
    cosines[torch.arange(len(nodes)), nodes] = -2.0
    return cosines.topk(min(NEIGHBORS, len(vectors) - 1), dim=1).indices


def _solve(now: Tensor, before: Tensor) -> NDArray[np.float64]:
    """R [D, D] from rows [n, D]; the products are summed in double precision."""
    product = torch.zeros(now.size(1), before.size(1), dtype=torch.double)
    for first, second in zip(now.split(CHUNK_ROWS), before.split(CHUNK_ROWS), strict=True):
        product += first.double().T @ second.double()
    rotation: NDArray[np.float64] = orthogonal_procrustes(np.eye(len(product)), product.numpy())[0]
    return rotation


def _widen(vectors: Tensor, width: int) -> Tensor:
    return pad(vectors, (0, width - vectors.size(1)))
