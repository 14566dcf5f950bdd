"""The full graph, its edges sorted once for all views of it; sparse features stay sparse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.distributed import shard_slice
from progcl.graph.sampler import NeighborSampler
from progcl.graph.sparse import (
    SparseMatrix,
    build_csr,
    choose_format,
    drop_entries,
    drop_features,
    propagate,
    scale_features,
)


class Edges(NamedTuple):
    """Edges and self-loops [E + N], sorted by row; `position` is an edge's index in `edge_index`, E for a self-loop."""

    row: Tensor
    column: Tensor
    position: Tensor


class SlowNodes(NamedTuple):
    """Nodes N, N + 1, ... that split edges in two, and the edges of the graph that has them.

    Attributes:
        source: u of every edge u → v that is split, [M]
        target: v, [M]
        edges: self-loops and edges [E' + N + M], sorted by target
    """

    source: Tensor
    target: Tensor
    edges: Edges


class LayerInput(Protocol):
    """Input of one encoder layer: its target nodes, and the previous layer's output x of them and their neighbors."""

    def propagate(self, weight: Tensor, mean: bool = False) -> Tensor:
        """Â x W [targets, d], with Â normalized as D̂^-½ Â D̂^-½, or as D̂⁻¹ Â for the `mean`."""

    def transform(self, weight: Tensor) -> Tensor:
        """x W [targets, d] of the target nodes themselves."""

    def dropout(self, rate: float, key: int) -> LayerInput:
        """The same with entries of x dropped at random, and the others scaled by 1 / (1 - rate)."""


class Graph:
    """A full graph: features, and edges with self-loops sorted by target and by source, so that a view need not sort.

    All tensors are on the device of `data`.

    Attributes:
        data: what it was made of
        num_nodes: N
        num_edges: E, without the self-loops that are added
        num_features: feature columns
        in_edges: sorted by target
        out_edges: sorted by source
        edge_weight: fixed weights [E] of a weighted graph; None for edges that a view normalizes
        seeds: the nodes that a step contrasts; None for all
        targets: those of them that this process embeds; None for all
        pairs: positives among the seeds, as positions [2, P]; None where views are contrasted
    """

    seeds: Tensor | None = None
    targets: Tensor | None = None
    pairs: Tensor | None = None
    steps = 1  # batches of an epoch

    def __init__(self, data: Data) -> None:
        self.data = data
        self.num_nodes = int(data.num_nodes)
        self.features = choose_format(scale_features(data).to(data.edge_index.device))
        self.num_features = int(data.x.size(1))
        self.edge_weight: Tensor | None = None
        source, target = data.edge_index
        loops = torch.arange(self.num_nodes, device=source.device)
        self._sort_edges(source, target, source != target, loops)

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.in_edges.row.device

    @cached_property
    def walker(self) -> NeighborSampler:
        """Takes random walks over the edges; built when it is needed."""
        edges = torch.stack([self.in_edges.column, self.in_edges.row])
        return NeighborSampler(edges[:, edges[0] != edges[1]], self.num_nodes, fanouts=[])

    def batches(self, epoch: int) -> Iterator[Graph]:
        """The batches of an epoch: one, the full graph."""
        yield self

    def view(self, edge_rates: float | Tensor, feature_rates: float | Tensor, generator: torch.Generator) -> View:
        """Drop edges and feature columns at random; rates are one number, or one per edge [E] or column [F].

        The two directions of an edge are dropped independently; a column is dropped for all nodes at once. Masks are
        drawn on the generator's device, the CPU, and moved: the same on every device.
        """
        edge_mask = torch.rand(self.num_edges, generator=generator).to(self.device) >= edge_rates
        feature_mask = torch.rand(self.num_features, generator=generator).to(self.device) >= feature_rates
        return View(self, edge_mask, feature_mask)

    def full_view(self) -> View:
        """The graph as it is."""
        return View(self)

    def shuffled(self, generator: torch.Generator) -> View:
        """The corruption of Deep Graph Infomax (Velickovic et al., 2019): all edges, feature rows permuted at random.

        Node i gets the features of node permutation[i].
        """
        return View(self, permutation=torch.randperm(self.num_nodes, generator=generator).to(self.device))

    def restrict(self, seeds: Tensor, shard: tuple[int, int] = (0, 1), pairs: Tensor | None = None) -> Graph:
        """The same graph, of which only some nodes are embedded: in this process, their shard (rank, world size)."""
        other = copy.copy(self)
        other.pairs = pairs
        other.seeds = seeds.to(self.device)
        other.targets = other.seeds[shard_slice(len(seeds), shard)]
        return other

    @torch.no_grad()
    def embed(self, encoder: Callable[[View], Tensor], progress: bool = False) -> Tensor:
        """Embeddings of all nodes [N, hidden]."""
        return encoder(View(self))

    def with_edges(self, edge_index: Tensor, edge_weight: Tensor) -> Graph:
        """The same features on other edges [2, E] with fixed weights [E]."""
        other = copy.copy(self)
        vars(other).pop("walker", None)
        other.edge_weight = edge_weight
        source, target = edge_index
        other._sort_edges(source, target, torch.ones_like(source, dtype=torch.bool), source[:0])
        return other

    def _sort_edges(self, source: Tensor, target: Tensor, mask: Tensor, loops: Tensor) -> None:
        """Set `in_edges` and `out_edges` from the edges that `mask` keeps, and self-loops of the nodes `loops`."""
        self.num_edges = len(source)
        index = mask.nonzero().flatten()
        source, target = torch.cat([source[index], loops]), torch.cat([target[index], loops])
        position = torch.cat([index, torch.full_like(loops, self.num_edges)])
        self.in_edges = _sort_by_row(target, source, position)
        self.out_edges = _sort_by_row(source, target, position)


@dataclass(frozen=True)
class View:
    """A graph with some edges and feature columns masked out, edges added, or feature rows permuted.

    Attributes:
        graph: the full graph
        edge_mask: edges to keep [E]; None for all
        feature_mask: feature columns to keep [F]; None for all
        extra_edges: edges [2, M] beside the graph's own
        permutation: node i has the features of node permutation[i], [N]
        split: nodes whose incoming edges have a slow node, [N]; None for no slow nodes
        alpha: share of the source in a slow node's features; the rest is the target's
    """

    graph: Graph
    edge_mask: Tensor | None = None
    feature_mask: Tensor | None = None
    extra_edges: Tensor | None = None
    permutation: Tensor | None = None
    split: Tensor | None = None
    alpha: float = 0.5

    def half_hop(self, p: float, alpha: float, generator: torch.Generator) -> View:
        """The view with slow nodes on all edges into nodes that are drawn with probability p.

        The edge u → v becomes u → s → v and v → s, with features x_s = α x_u + (1-α) x_v: PyG's `HalfHop`, after edges
        and features were dropped. Slow nodes pass messages, and are not embedded: the last layer leaves them out.

        Azabou, Ganesh, Thakoor, Lin, Sathidevi, Liu, Valko, Veličković, Dyer: Half-Hop: A graph upsampling approach for
        slowing down message passing (2023).
        """
        assert self.graph.edge_weight is None, "half of an edge has no weight of its own"
        split = torch.rand(self.graph.num_nodes, generator=generator).to(self.graph.device) < p
        return replace(self, split=split, alpha=alpha)

    def transform(self, weight: Tensor) -> Tensor:
        """X·W [N, d], for W [F, d]: a dropped column of X is a dropped row of W, and (X[π])·W = (X·W)[π].

        Rows of slow nodes follow, [N + M, d]: (α x_u + (1-α) x_v)·W is the same mixture of rows of X·W.
        """
        if self.feature_mask is not None:
            weight = weight * self.feature_mask.unsqueeze(1)
        features = self.graph.features
        out = propagate(weight, features) if isinstance(features, SparseMatrix) else features @ weight
        out = out if self.permutation is None else out[self.permutation]
        if self.slow_nodes is None:
            return out
        source, target, _ = self.slow_nodes
        return torch.cat([out, torch.lerp(out[target], out[source], self.alpha)])

    def layer_input(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """Input of layer `number`: x of all nodes [N, d], or the features if x is None."""
        targets = self.graph.targets if last else None
        if last and targets is None and self.split is not None:
            targets = torch.arange(self.graph.num_nodes, device=self.graph.device)
        return FullGraphInput(self, x, targets)

    def dropout(self, rate: float, key: int) -> View:
        """The same view of features with entries dropped at random."""
        graph = copy.copy(self.graph)
        graph.features = drop_features(graph.features, rate, key)
        return replace(self, graph=graph)

    @cached_property
    def slow_nodes(self) -> SlowNodes | None:
        """The slow nodes of this view; None without any."""
        if self.split is None:
            return None
        target, source, _ = self._select_edges(self.graph.in_edges, ends=(1, 0))
        is_split = self.split[target] & (target != source)
        u, v = source[is_split], target[is_split]
        slow = torch.arange(len(u), device=u.device) + self.graph.num_nodes
        row = torch.cat([target, slow.repeat_interleave(3)])
        column = torch.cat([source.masked_scatter(is_split, slow), torch.stack([u, v, slow], dim=1).flatten()])
        return SlowNodes(u, v, Edges(row, column, torch.empty_like(row)))

    @cached_property
    def symmetric(self) -> SparseMatrix:
        """D̂^-½ (A+I) D̂^-½ with messages from source to target; D̂ counts incoming edges, as PyG's `gcn_norm` does.

        Fixed edge weights are kept.
        """
        return self._normalize(mean=False)

    @cached_property
    def mean(self) -> SparseMatrix:
        """D̂⁻¹ (A+I): the mean over a node and its in-neighbors."""
        return self._normalize(mean=True)

    @property
    def in_edges(self) -> Edges:
        """The edges of this view and self-loops, sorted by target."""
        return self._select_edges(self.graph.in_edges, ends=(1, 0))

    def _normalize(self, mean: bool) -> SparseMatrix:
        num_nodes, edge_weight = self.graph.num_nodes, self.graph.edge_weight
        if self.slow_nodes is None:
            in_edges = self.in_edges
            out_edges = self._select_edges(self.graph.out_edges, ends=(0, 1))
        else:
            in_edges = self.slow_nodes.edges
            out_edges = _sort_by_row(in_edges.column, in_edges.row, in_edges.position)
            num_nodes += len(self.slow_nodes.source)
        (target, source, position), (out_source, out_target, out_position) = in_edges, out_edges
        in_degree = torch.bincount(target, minlength=num_nodes)
        out_degree = torch.bincount(out_source, minlength=num_nodes)
        if edge_weight is not None:
            values = edge_weight[position], edge_weight[out_position]
        elif mean:
            scale = in_degree.float().reciprocal()
            values = scale[target], scale[out_target]
        else:
            scale = in_degree.float().rsqrt()
            values = scale[target] * scale[source], scale[out_source] * scale[out_target]
        return SparseMatrix(
            build_csr(in_degree, source, values[0], num_nodes), build_csr(out_degree, out_target, values[1], num_nodes)
        )

    def _select_edges(self, edges: Edges, ends: tuple[int, int]) -> Edges:
        """The edges of this view; `ends` says which rows of `extra_edges` are row and column of the matrix."""
        if self.edge_mask is not None:
            keep_loop = self.edge_mask.new_ones(1)  # self-loops are never dropped
            index = torch.cat([self.edge_mask, keep_loop])[edges.position].nonzero().flatten()
            edges = Edges(*(column[index] for column in edges))
        if self.extra_edges is None:
            return edges
        assert self.graph.edge_weight is None, "extra edges have no weight of their own"
        row, column = (torch.cat([old, self.extra_edges[end]]) for old, end in zip(edges[:2], ends, strict=True))
        return _sort_by_row(row, column, torch.empty_like(row))


class FullGraphInput:
    """All nodes as targets, or `targets` alone with messages from all."""

    def __init__(self, view: View, x: Tensor | None, targets: Tensor | None) -> None:
        self.view = view
        self.x = x
        self.targets = targets

    def propagate(self, weight: Tensor, mean: bool = False) -> Tensor:
        """Â x W of the targets."""
        matrix = self.view.mean if mean else self.view.symmetric
        if self.targets is None:
            return propagate(self.transform(weight), matrix)
        matrix = matrix.select_rows(self.targets)
        if self.x is None:
            return propagate(self.view.transform(weight), matrix)
        return propagate(self.x, matrix) @ weight

    def convolve(self, layer: Callable[[Tensor, Tensor], Tensor], weight: Tensor) -> Tensor:
        """layer(x W, edge_index) [targets, d], by a layer of PyG; the edges include self-loops."""
        target, source, _ = self.view.in_edges
        x = self.view.transform(weight) if self.x is None else self.x @ weight
        out = layer(x, torch.stack([source, target]))
        return out if self.targets is None else out[self.targets]

    def dropout(self, rate: float, key: int) -> LayerInput:
        """The same with entries of x dropped."""
        if self.x is None:
            return FullGraphInput(self.view.dropout(rate, key), None, self.targets)
        nodes = torch.arange(len(self.x), device=self.x.device)
        return FullGraphInput(self.view, drop_entries(self.x, nodes, rate, key), self.targets)

    def transform(self, weight: Tensor) -> Tensor:
        """x W of the targets."""
        rows = slice(None) if self.targets is None else self.targets
        return self.view.transform(weight)[rows] if self.x is None else self.x[rows] @ weight


def _sort_by_row(row: Tensor, column: Tensor, position: Tensor) -> Edges:
    order = row.argsort(stable=True)
    return Edges(row[order], column[order], position[order])
