"""A graph made ready for many views of it: edges sorted once, sparse features kept sparse."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

DENSE = 0.1  # share of entries from which a dense product is the faster one


class Sparse(NamedTuple):
    """A sparse matrix and its transpose, both CSR: one for the forward, one for the backward product."""

    matrix: Tensor
    transpose: Tensor


class Edges(NamedTuple):
    """Edges and self-loops in the order of their rows; `position` is an edge's place in `edge_index`."""

    row: Tensor
    column: Tensor
    position: Tensor


class Graph:
    """Features, and the edges with self-loops by target and by source, so that a view needs no sorting."""

    def __init__(self, data: Data) -> None:
        self.nodes = int(data.num_nodes)
        self.features = _features(data.x)
        source, target = data.edge_index
        self.columns, self.edges = int(data.x.size(1)), len(source)
        proper = (source != target).nonzero().flatten()
        loops = torch.arange(self.nodes, device=source.device)
        source, target = torch.cat([source[proper], loops]), torch.cat([target[proper], loops])
        position = torch.cat([proper, torch.full_like(loops, self.edges)])
        self.by_target = _sorted(target, source, position)
        self.by_source = _sorted(source, target, position)


@dataclass(frozen=True)
class View:
    """A graph of which some edges and feature columns are seen: all, or those that the masks keep."""

    graph: Graph
    kept_edges: Tensor | None = None
    kept_columns: Tensor | None = None

    def transform(self, weight: Tensor) -> Tensor:
        """X·W, for W [features, d]: a dropped column of X is a dropped row of W."""
        if self.kept_columns is not None:
            weight = weight * self.kept_columns.unsqueeze(1)
        features = self.graph.features
        return propagate(weight, features) if isinstance(features, Sparse) else features @ weight

    def adjacency(self) -> Sparse:
        """D̂^-½ (A+I) D̂^-½ with messages from source to target; D̂ counts what arrives, as PyG's `gcn_norm` has it."""
        nodes = self.graph.nodes
        (target, source), (other, turned) = (
            self._kept(edges) for edges in (self.graph.by_target, self.graph.by_source)
        )
        arriving = torch.bincount(target, minlength=nodes)
        scale = arriving.float().rsqrt()
        return Sparse(
            _csr(arriving, source, scale[target] * scale[source], nodes),
            _csr(torch.bincount(other, minlength=nodes), turned, scale[other] * scale[turned], nodes),
        )

    def _kept(self, edges: Edges) -> tuple[Tensor, Tensor]:
        if self.kept_edges is None:
            return edges.row, edges.column
        always = self.kept_edges.new_ones(1)  # self-loops are never dropped
        kept = torch.cat([self.kept_edges, always])[edges.position].nonzero().flatten()
        return edges.row[kept], edges.column[kept]


def propagate(x: Tensor, matrix: Sparse) -> Tensor:
    """A sparse product: with an adjacency one step of message passing, Â·X."""
    out: Tensor = _Product.apply(x, matrix)  # type: ignore[no-untyped-call]
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        return matrix.matrix @ x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.transpose @ grads[0].contiguous(), None


def _features(x: Tensor) -> Tensor | Sparse:
    if x.requires_grad or x.count_nonzero() > DENSE * x.numel():
        return x
    row, column = x.nonzero().T
    turn = column.argsort(stable=True)
    value, (nodes, columns) = x[row, column], x.shape
    return Sparse(
        _csr(torch.bincount(row, minlength=nodes), column, value, columns),
        _csr(torch.bincount(column, minlength=columns), row[turn], value[turn], nodes),
    )


def _sorted(row: Tensor, column: Tensor, position: Tensor) -> Edges:
    order = row.argsort(stable=True)
    return Edges(row[order], column[order], position[order])


def _csr(counts: Tensor, column: Tensor, value: Tensor, columns: int) -> Tensor:
    """A matrix from its rows' numbers of entries, and all entries in the order of rows."""
    starts = torch.zeros(len(counts) + 1, dtype=torch.int32, device=counts.device)
    starts[1:] = counts.cumsum(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, column.int(), value, (len(counts), columns), check_invariants=False)
