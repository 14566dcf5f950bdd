"""Node centralities for GCA's adaptive augmentation. Graphs may have several components."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import eigsh
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected


def degree(data: Data, steps: int = 0) -> Tensor:
    """Number of neighbors, [N]."""
    edges = to_undirected(data.edge_index, num_nodes=data.num_nodes)
    return torch.bincount(edges[1], minlength=data.num_nodes).float()


def pagerank(data: Data, steps: int = 200) -> Tensor:
    """PageRank as GCA iterates it: x ← (1-d)·x + d·Aᵀ(x/deg) from x = 1 with d = 0.85, [N]."""
    source, target = data.edge_index
    reciprocal = 1 / torch.bincount(source, minlength=data.num_nodes).clamp(min=1).float()
    x = torch.ones(data.num_nodes, device=source.device)
    for _ in range(steps):
        x = 0.15 * x + 0.85 * torch.zeros_like(x).index_add_(0, target, (x * reciprocal)[source])
    return x


def eigenvector(data: Data, steps: int = 0) -> Tensor:
    """Leading eigenvector of the undirected graph, clipped at 0, plus 1e-8 for nodes outside its component, [N]."""
    device, n = data.edge_index.device, data.num_nodes
    row, col = to_undirected(data.edge_index, num_nodes=n).cpu().numpy()
    adjacency = coo_matrix((np.ones(len(row)), (row, col)), shape=(n, n)).tocsr()
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
