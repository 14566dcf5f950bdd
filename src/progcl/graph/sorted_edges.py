"""Edges and self-loops sorted by row, with or without weights, and their normalized adjacency."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from progcl.data.edges import sum_weights
from progcl.data.rows import build_csr
from progcl.graph.sparse import SparseMatrix


class Edges(NamedTuple):
    """Edges and self-loops [E + N], sorted by row.

    Attributes:
        row: target or source
        column: the other end
        position: an edge's index in `edge_index`, E for a self-loop
        weight: of edges and self-loops; None for 1
    """

    row: Tensor
    column: Tensor
    position: Tensor
    weight: Tensor | None = None

    def select(self, index: Tensor) -> Edges:
        """Some of them, or all in another order."""
        weight = None if self.weight is None else self.weight[index]
        return Edges(self.row[index], self.column[index], self.position[index], weight)


def sort_by_row(edges: Edges) -> Edges:
    """The same, ascending by row; equal rows keep their order."""
    return edges.select(edges.row.argsort(stable=True))


def normalize_edges(in_edges: Edges, out_edges: Edges, num_nodes: int, mean: bool | None) -> SparseMatrix:
    """D̂^-½ Â D̂^-½ [N, N] with messages from source to target, D̂⁻¹ Â for the `mean`, or Â if that is None.

    D̂ is the sum of the weights of incoming edges.

    Args:
        in_edges: edges and self-loops, sorted by target
        out_edges: the same, sorted by source
        num_nodes: N
        mean: which normalization; None for weights that are used as they are
    """
    (target, source, _, weight), (out_source, out_target, _, out_weight) = in_edges, out_edges
    in_degree = torch.bincount(target, minlength=num_nodes)
    out_degree = torch.bincount(out_source, minlength=num_nodes)
    if mean is None:
        assert weight is not None
        assert out_weight is not None
        values = weight, out_weight
    else:
        total = in_degree.float() if weight is None else sum_weights(target, weight, num_nodes)
        scale = total.reciprocal() if mean else total.rsqrt()
        forth, back = (
            (scale[target], scale[out_target])
            if mean
            else (
                scale[target] * scale[source],
                scale[out_source] * scale[out_target],
            )
        )
        values = _multiply(weight, forth), _multiply(out_weight, back)
    return SparseMatrix(
        build_csr(in_degree, source, values[0], num_nodes), build_csr(out_degree, out_target, values[1], num_nodes)
    )


def _multiply(weight: Tensor | None, scale: Tensor) -> Tensor:
    return scale if weight is None else weight * scale
