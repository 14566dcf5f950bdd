"""Embeddings without any training: what a learned one has to beat."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch_geometric.data import Data

from progcl.graph.hop_table import project, stack_hops, svd_directions
from progcl.graph.sparse import propagate, scale_features
from progcl.graph.views import Graph, View


def raw(data: Data) -> Tensor:
    """The features as they are."""
    return scale_features(data)


def propagated(data: Data, rank: int = 256, hops: int = 2) -> Tensor:
    """Â^hops · SVD_rank(X): message passing over reduced features."""
    x = scale_features(data)
    if x.size(1) > rank:
        u, s, _ = randomized_svd(x.numpy(), rank, random_state=0)
        x = torch.from_numpy(u * s).float()
    adjacency = View(Graph(data)).symmetric
    for _ in range(hops):
        x = propagate(x, adjacency)
    return x


def hop_features(data: Data, rank: int = 256, hops: Sequence[int] = (0, 1, 2, 3)) -> Tensor:
    """[F, ÂF, Â²F, Â³F] or others side by side: what the encoder `hops` reads."""
    return stack_hops(project(data.x, svd_directions(data.x, rank)), data, hops)
