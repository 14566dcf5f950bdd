"""Personalized PageRank: how strongly a random walker that keeps coming home is tied to every other node."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from progcl.graph.views import Graph, View
from progcl.progress import bar

ELEMENTS = 2**19  # of one block of columns, which then stays in the cache
TOLERANCE = 1e-5


def top_ppr_edges(data: Data, teleport: float, number: int, progress: bool = False) -> tuple[Tensor, Tensor]:
    """Every node's `number` largest entries of α (I - (1-α) Â)^-1, as edges to it [2, E] and their weights [E].

    Â is the normalized adjacency with self-loops of the undirected graph. What a node keeps is scaled to what it
    had. All columns are exact to 1e-5, computed some at a time: nothing of size N x N is kept.
    """
    edges = to_undirected(data.edge_index, num_nodes=data.num_nodes)
    matrix = View(Graph(Data(x=data.x[:, :1], edge_index=edges))).symmetric.matrix
    nodes, number = int(data.num_nodes), min(number, int(data.num_nodes))
    width = max(1, ELEMENTS // nodes)
    sources, weights = [], []
    for start in bar(progress, iterable=range(0, nodes, width), desc="diffusion", unit="block", leave=False):
        home = torch.arange(start, min(start + width, nodes))
        reached = _solve(matrix, home, teleport)
        kept, source = reached.topk(number, dim=0)
        sources.append(source.T)
        weights.append((kept * (reached.sum(dim=0) / kept.sum(dim=0))).T)
    target = torch.arange(nodes).repeat_interleave(number)
    edge_index, weight = torch.stack([torch.cat(sources).flatten(), target]), torch.cat(weights).flatten()
    return edge_index[:, weight > 0], weight[weight > 0]


def _solve(matrix: Tensor, home: Tensor, teleport: float) -> Tensor:
    """Columns `home` of the inverse, by Chebyshev's iteration: I - (1-α) Â has its eigenvalues in [α, 2-α]."""
    residual = torch.zeros(matrix.size(0), len(home))
    residual[home, torch.arange(len(home))] = teleport
    if teleport == 1:
        return residual
    step, radius, ratio = residual.clone(), 1 - teleport, 1 - teleport
    solution = torch.zeros_like(residual)
    for _ in range(_iterations(teleport)):
        solution += step
        residual.add_(matrix @ step, alpha=radius).sub_(step)
        following = 1 / (2 / radius - ratio)
        step.mul_(following * ratio).add_(residual, alpha=2 * following / radius)
        ratio = following
    return solution


def _iterations(teleport: float) -> int:
    root = math.sqrt((2 - teleport) / teleport)
    return math.ceil(math.log(2 / TOLERANCE) / math.log((root + 1) / (root - 1)))
