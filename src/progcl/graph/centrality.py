"""Node centralities for GCA's adaptive augmentation. Graphs may have several components."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import eigsh
from torch import Tensor
from torch_geometric.data import Data

from progcl.data.edges import mirror_edges, sum_weights


def degree(data: Data, steps: int = 0) -> Tensor:
    """Number of neighbors, or the sum of the weights of their edges, [N]."""
    edges, weight = mirror_edges(data)
    if weight is not None:
        return sum_weights(edges[1], weight, data.num_nodes)
    return torch.bincount(edges[1], minlength=data.num_nodes).float()


def pagerank(data: Data, steps: int = 200) -> Tensor:
    """PageRank as GCA iterates it: x ← (1-d)·x + d·Aᵀ(x/deg) from x = 1 with d = 0.85, [N].

    A has the weights of the edges, if there are any, and deg sums them.
    """
    (source, target), weight = data.edge_index, data.get("edge_weight")
    if weight is None:
        share = (1 / torch.bincount(source, minlength=data.num_nodes).clamp(min=1).float())[source]
    else:
        share = weight / sum_weights(source, weight, data.num_nodes)[source]
    x = torch.ones(data.num_nodes, device=source.device)
    for _ in range(steps):
        x = 0.15 * x + 0.85 * torch.zeros_like(x).index_add_(0, target, x[source] * share)
    return x


def eigenvector(data: Data, steps: int = 0) -> Tensor:
    """Leading eigenvector of the undirected graph, clipped at 0, plus 1e-8 for nodes outside its component, [N]."""
    device, n = data.edge_index.device, data.num_nodes
    edges, weight = mirror_edges(data)
    row, col = edges.cpu().numpy()
    entries = np.ones(len(row)) if weight is None else weight.cpu().double().numpy()
    adjacency = coo_matrix((entries, (row, col)), shape=(n, n)).tocsr()
    if n < 3 or not len(row):
        return torch.ones(n, device=device)
    _, vectors = eigsh(adjacency, k=1, which="LA", v0=np.ones(n))
    leading = vectors[:, 0] * np.sign(vectors[:, 0].sum())
    return torch.from_numpy(np.maximum(leading, 0) + 1e-8).float().to(device)


CENTRALITIES: dict[str, Callable[[Data, int], Tensor]] = {
    "degree": degree,
    "pagerank": pagerank,
    "eigenvector": eigenvector,
}
