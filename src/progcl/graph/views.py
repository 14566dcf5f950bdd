"""A graph made ready for many views of it: edges sorted once, sparse features kept sparse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.distributed import shard_slice
from progcl.graph.sparse import Sparse, csr_matrix_of, propagate, scaled_rows, sparse_or_dense


class Edges(NamedTuple):
    """Edges and self-loops in the order of their rows; `position` is an edge's place in `edge_index`."""

    row: Tensor
    column: Tensor
    position: Tensor


class LayerInput(Protocol):
    """What a layer sees: some nodes, and what they and their neighbors bring from the layer before."""

    def messages(self, weight: Tensor, mean: bool = False) -> Tensor:
        """Â x W for the layer's nodes, with Â normalized to D̂^-½ Â D̂^-½, or to the `mean` D̂⁻¹ Â."""

    def own(self, weight: Tensor) -> Tensor:
        """x W of the layer's nodes themselves."""


class Graph:
    """Features, and the edges with self-loops by target and by source, so that a view needs no sorting.

    Attributes:
        weight: of every edge, as a view passes messages on; None for edges that a view normalizes
        seeds: the nodes that a step contrasts; None for all
        targets: those of them that are embedded here; None for all
    """

    seeds: Tensor | None = None
    targets: Tensor | None = None
    steps = 1  # of an epoch

    def __init__(self, data: Data) -> None:
        self.nodes = int(data.num_nodes)
        self.features = sparse_or_dense(scaled_rows(data))
        self.columns = int(data.x.size(1))
        self.weight: Tensor | None = None
        source, target = data.edge_index
        loops = torch.arange(self.nodes, device=source.device)
        self._set_edges(source, target, source != target, loops)

    def batches(self, epoch: int) -> Iterator[Graph]:
        """What the steps of an epoch see, one after the other: the whole, once."""
        yield self

    def view(self, edge_rates: float | Tensor, feature_rates: float | Tensor, generator: torch.Generator) -> View:
        """What chance leaves of the edges and feature columns; rates are one number, or one per edge or column.

        The two directions of an edge are dropped independently; a column is dropped for all nodes at once.
        """
        kept_edges = torch.rand(self.edges, generator=generator) >= edge_rates
        kept_columns = torch.rand(self.columns, generator=generator) >= feature_rates
        return View(self, kept_edges, kept_columns)

    def of(self, seeds: Tensor, part: tuple[int, int]) -> Graph:
        """The same graph, of which no more than some nodes are embedded: in this process, their `part`."""
        other = copy.copy(self)
        other.seeds, other.targets = seeds, seeds[shard_slice(len(seeds), part)]
        return other

    @torch.no_grad()
    def embed(self, encoder: Callable[[View], Tensor], progress: bool = False) -> Tensor:
        """Embeddings of all nodes [N, hidden]."""
        return encoder(View(self))

    def with_edges(self, edge_index: Tensor, weight: Tensor) -> Graph:
        """The same features on other edges, which keep the weights that they are given."""
        other = copy.copy(self)
        other.weight = weight
        source, target = edge_index
        other._set_edges(source, target, torch.ones_like(source, dtype=torch.bool), source[:0])
        return other

    def _set_edges(self, source: Tensor, target: Tensor, proper: Tensor, loops: Tensor) -> None:
        self.edges = len(source)
        place = proper.nonzero().flatten()
        source, target = torch.cat([source[place], loops]), torch.cat([target[place], loops])
        position = torch.cat([place, torch.full_like(loops, self.edges)])
        self.by_target = _sorted(target, source, position)
        self.by_source = _sorted(source, target, position)


@dataclass(frozen=True)
class View:
    """A graph of which some edges and feature columns are seen: all, or those that the masks keep.

    `added` are edges [2, M] beside the graph's own.
    """

    graph: Graph
    kept_edges: Tensor | None = None
    kept_columns: Tensor | None = None
    added: Tensor | None = None

    def transform(self, weight: Tensor) -> Tensor:
        """X·W, for W [features, d]: a dropped column of X is a dropped row of W."""
        if self.kept_columns is not None:
            weight = weight * self.kept_columns.unsqueeze(1)
        features = self.graph.features
        return propagate(weight, features) if isinstance(features, Sparse) else features @ weight

    def step(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """What layer `number` sees: x of all nodes, or the features if there is none yet."""
        return _FullGraphInput(self, x, self.graph.targets if last else None)

    @cached_property
    def symmetric(self) -> Sparse:
        """D̂^-½ (A+I) D̂^-½ with messages from source to target; D̂ counts what arrives, as PyG's `gcn_norm` has it.

        Edges with weights of their own keep these.
        """
        return self._normalized(mean=False)

    @cached_property
    def mean(self) -> Sparse:
        """D̂⁻¹ (A+I): the mean of a node and those that it hears from."""
        return self._normalized(mean=True)

    def _normalized(self, mean: bool) -> Sparse:
        nodes, weight = self.graph.nodes, self.graph.weight
        (target, source, place), (other, turned, turned_place) = (
            self._seen(edges, around)
            for edges, around in ((self.graph.by_target, (1, 0)), (self.graph.by_source, (0, 1)))
        )
        arriving = torch.bincount(target, minlength=nodes)
        leaving = torch.bincount(other, minlength=nodes)
        if weight is not None:
            return Sparse(
                csr_matrix_of(arriving, source, weight[place], nodes),
                csr_matrix_of(leaving, turned, weight[turned_place], nodes),
            )
        if mean:
            share = arriving.float().reciprocal()
            return Sparse(
                csr_matrix_of(arriving, source, share[target], nodes),
                csr_matrix_of(leaving, turned, share[turned], nodes),
            )
        scale = arriving.float().rsqrt()
        return Sparse(
            csr_matrix_of(arriving, source, scale[target] * scale[source], nodes),
            csr_matrix_of(leaving, turned, scale[other] * scale[turned], nodes),
        )

    def _seen(self, edges: Edges, around: tuple[int, int]) -> Edges:
        if self.kept_edges is not None:
            always = self.kept_edges.new_ones(1)  # self-loops are never dropped
            kept = torch.cat([self.kept_edges, always])[edges.position].nonzero().flatten()
            edges = Edges(*(part[kept] for part in edges))
        if self.added is None:
            return edges
        assert self.graph.weight is None, "added edges have no weight of their own"
        row, column = (torch.cat([old, self.added[end]]) for old, end in zip(edges[:2], around, strict=True))
        return _sorted(row, column, torch.empty_like(row))


class _FullGraphInput:
    """All nodes, or `targets` alone with what all bring."""

    def __init__(self, view: View, x: Tensor | None, targets: Tensor | None) -> None:
        self.view = view
        self.x = x
        self.targets = targets

    def messages(self, weight: Tensor, mean: bool = False) -> Tensor:
        matrix = self.view.mean if mean else self.view.symmetric
        if self.targets is None:
            return propagate(self.own(weight), matrix)
        matrix = matrix.rows(self.targets)
        if self.x is None:
            return propagate(self.view.transform(weight), matrix)
        return propagate(self.x, matrix) @ weight

    def own(self, weight: Tensor) -> Tensor:
        some = slice(None) if self.targets is None else self.targets
        return self.view.transform(weight)[some] if self.x is None else self.x[some] @ weight


def _sorted(row: Tensor, column: Tensor, position: Tensor) -> Edges:
    order = row.argsort(stable=True)
    return Edges(row[order], column[order], position[order])
