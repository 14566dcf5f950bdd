"""Pairs of nodes without an edge, drawn uniformly in memory linear in the edges."""

from __future__ import annotations

import torch
from torch import Tensor

from progcl.errors import InputError


class NonEdges:
    """All ordered pairs of two different nodes that no edge joins, to draw from.

    A pair (i, j) has the number i·N + j. With the sorted numbers k₀ < k₁ < ... of edges and self-loops, the r-th number
    that is none of them is r plus how many m have kₘ - m ≤ r: a draw is a binary search, and none is rejected.

    Args:
        edge_index: edges [2, E]
        num_nodes: N

    Raises `InputError` for a graph in which all nodes are joined.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        loops = torch.arange(num_nodes, device=edge_index.device) * (num_nodes + 1)
        taken = torch.cat([edge_index[0] * num_nodes + edge_index[1], loops]).unique()
        self.num_nodes = num_nodes
        self.count = num_nodes**2 - len(taken)
        if self.count == 0:
            raise InputError("an edge joins any two nodes: there are no negatives", "use a graph with fewer edges")
        self._skipped = taken - torch.arange(len(taken), device=taken.device)  # non-edges before each taken number

    def sample(self, number: int, generator: torch.Generator) -> Tensor:
        """Pairs [2, number], drawn with replacement; on the device of the edges."""
        rank = torch.randint(self.count, (number,), generator=generator).to(self._skipped.device)
        pair = rank + torch.searchsorted(self._skipped, rank, right=True)
        return torch.stack([pair // self.num_nodes, pair % self.num_nodes])
