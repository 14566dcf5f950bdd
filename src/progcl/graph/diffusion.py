"""Personalized PageRank diffusion, sparsified to the strongest links (Gasteiger et al., 2019)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.data.edges import mirror_edges
from progcl.graph.views import Graph, View
from progcl.progress import bar

DIFFUSION_ELEMENTS = 2**19  # of one block of columns, small enough for the cache
TOLERANCE = 1e-5


def top_ppr_edges(data: Data, teleport: float, number: int, progress: bool = False) -> tuple[Tensor, Tensor]:
    """Every node's `number` largest entries of α (I - (1-α) Â)^-1, as edges to it [2, E] and their weights [E].

    Â is the normalized adjacency with self-loops of the undirected graph. The weights of a node are scaled to the sum
    of its whole column. All columns are exact to 1e-5, computed in blocks: nothing of size N x N is held in memory.
    """
    number = min(number, int(data.num_nodes))

    def select(columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        largest, source = columns.topk(number, dim=0)
        weight = largest * (columns.sum(dim=0) / largest.sum(dim=0))
        target = torch.arange(columns.size(1), device=columns.device).repeat_interleave(number)
        return source.T.flatten(), target, weight.T.flatten()

    return _select_entries(data, teleport, select, progress)


def ppr_edges_above(data: Data, teleport: float, threshold: float, progress: bool = False) -> tuple[Tensor, Tensor]:
    """The same of all entries of at least `threshold`; those of a node are scaled to sum 1 (Gasteiger et al., 2019).

    Memory grows with their number, which is up to 1/threshold for every node.
    """

    def select(columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        columns = columns.masked_fill(columns < threshold, 0)
        target, source = columns.T.nonzero().T
        return source, target, (columns / columns.sum(dim=0))[source, target]

    return _select_entries(data, teleport, select, progress)


def _select_entries(
    data: Data, teleport: float, select: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]], progress: bool
) -> tuple[Tensor, Tensor]:
    """Edges [2, E] and weights [E] that `select` takes of blocks of columns [N, b]: row, column and weight of each."""
    mirrored, edge_weight = mirror_edges(data)
    adjacency = View(Graph(Data(x=data.x[:, :1], edge_index=mirrored, edge_weight=edge_weight))).symmetric.csr
    num_nodes, device = int(data.num_nodes), adjacency.device
    width = max(1, DIFFUSION_ELEMENTS // num_nodes)
    edges, weights = [], []
    for start in bar(progress, iterable=range(0, num_nodes, width), desc="diffusion", unit="block", leave=False):
        targets = torch.arange(start, min(start + width, num_nodes), device=device)
        source, target, weight = select(_solve_ppr(adjacency, targets, teleport))
        edges.append(torch.stack([source, target + start])[:, weight > 0])
        weights.append(weight[weight > 0])
    return torch.cat(edges, dim=1), torch.cat(weights)


def _solve_ppr(adjacency: Tensor, targets: Tensor, teleport: float) -> Tensor:
    """Columns `targets` [N, b] of the inverse by Chebyshev iteration: I - (1-α) Â has its spectrum in [α, 2-α]."""
    residual = torch.zeros(adjacency.size(0), len(targets), device=targets.device)
    residual[targets, torch.arange(len(targets), device=targets.device)] = teleport
    if teleport == 1:
        return residual
    step, radius, ratio = residual.clone(), 1 - teleport, 1 - teleport
    solution = torch.zeros_like(residual)
    for _ in range(_num_iterations(teleport)):
        solution += step
        residual.add_(adjacency @ step, alpha=radius).sub_(step)
        next_ratio = 1 / (2 / radius - ratio)
        step.mul_(next_ratio * ratio).add_(residual, alpha=2 * next_ratio / radius)
        ratio = next_ratio
    return solution


def _num_iterations(teleport: float) -> int:
    """Iterations after which the error bound of the Chebyshev iteration is below `TOLERANCE`."""
    root = math.sqrt((2 - teleport) / teleport)
    return math.ceil(math.log(2 / TOLERANCE) / math.log((root + 1) / (root - 1)))
