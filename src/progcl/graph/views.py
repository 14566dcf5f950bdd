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

from progcl.data.edges import loop_weights
from progcl.distributed import shard_slice
from progcl.graph.sampler import NeighborSampler
from progcl.graph.sorted_edges import Edges, normalize_edges, sort_by_row
from progcl.graph.sparse import (
    SparseMatrix,
    choose_format,
    drop_entries,
    drop_features,
    propagate,
    scale_features,
)


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
        is_normalized: whether weights of edges are entries of a matrix that is used as it is
        seeds: the nodes that a step contrasts; None for all
        targets: those of them that this process embeds; None for all
        pairs: positives among the seeds, as positions [2, P]; None where views are contrasted
    """

    seeds: Tensor | None = None
    targets: Tensor | None = None
    pairs: Tensor | None = None
    steps = 1  # batches of an epoch
    is_normalized = False

    def __init__(self, data: Data) -> None:
        self.data = data
        self.num_nodes = int(data.num_nodes)
        self.features = choose_format(scale_features(data).to(data.edge_index.device))
        self.num_features = int(data.x.size(1))
        (source, target), weight = data.edge_index, data.get("edge_weight")
        loops, mask = torch.arange(self.num_nodes, device=source.device), source != target
        loop_weight = None if weight is None else loop_weights(target[mask], weight[mask], self.num_nodes)
        self._sort_edges(source, target, mask, loops, weight, loop_weight)

    @property
    def device(self) -> torch.device:
        """The device of all tensors."""
        return self.in_edges.row.device

    @cached_property
    def walker(self) -> NeighborSampler:
        """Takes random walks over the edges; built when it is needed."""
        edges = self.in_edges.select((self.in_edges.row != self.in_edges.column).nonzero().flatten())
        pairs = torch.stack([edges.column, edges.row])
        return NeighborSampler(pairs, self.num_nodes, fanouts=[], edge_weight=edges.weight)

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

    def with_edges(self, edge_index: Tensor, entries: Tensor) -> Graph:
        """The same features on other edges [2, E], the entries [E] of a matrix that is used as it is."""
        other = copy.copy(self)
        vars(other).pop("walker", None)
        other.is_normalized = True
        source, target = edge_index
        mask = torch.ones_like(source, dtype=torch.bool)
        other._sort_edges(source, target, mask, source[:0], entries, entries[:0])
        return other

    def _sort_edges(
        self,
        source: Tensor,
        target: Tensor,
        mask: Tensor,
        loops: Tensor,
        weight: Tensor | None,
        loop_weight: Tensor | None,
    ) -> None:
        """Set `in_edges` and `out_edges` from the edges that `mask` keeps, and self-loops of the nodes `loops`."""
        self.num_edges = len(source)
        index = mask.nonzero().flatten()
        source, target = torch.cat([source[index], loops]), torch.cat([target[index], loops])
        position = torch.cat([index, torch.full_like(loops, self.num_edges)])
        weights = None if weight is None or loop_weight is None else torch.cat([weight[index], loop_weight])
        self.in_edges = sort_by_row(Edges(target, source, position, weights))
        self.out_edges = sort_by_row(Edges(source, target, position, weights))


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
        and features were dropped. All of them have its weight, as has the self-loop of s. Slow nodes pass messages, and
        are not embedded: the last layer leaves them out.

        Azabou, Ganesh, Thakoor, Lin, Sathidevi, Liu, Valko, Veličković, Dyer: Half-Hop: A graph upsampling approach for
        slowing down message passing (2023).
        """
        assert not self.graph.is_normalized, "half of an edge has no entry of its own"
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
        target, source, _, weight = self.in_edges
        is_split = self.split[target] & (target != source)
        u, v = source[is_split], target[is_split]
        slow = torch.arange(len(u), device=u.device) + self.graph.num_nodes
        row = torch.cat([target, slow.repeat_interleave(3)])
        column = torch.cat([source.masked_scatter(is_split, slow), torch.stack([u, v, slow], dim=1).flatten()])
        weights = None if weight is None else torch.cat([weight, weight[is_split].repeat_interleave(3)])
        return SlowNodes(u, v, Edges(row, column, torch.empty_like(row), weights))

    @cached_property
    def symmetric(self) -> SparseMatrix:
        """D̂^-½ (A+I) D̂^-½ with messages from source to target; D̂ sums incoming edges, as PyG's `gcn_norm` does.

        With weights, the self-loop of a node is the mean of its edges in the graph (`loop_weights`) in place of I.
        Entries of a matrix that is normalized already are kept.
        """
        return self._normalize(mean=False)

    @cached_property
    def mean(self) -> SparseMatrix:
        """D̂⁻¹ (A+I): the mean over a node and its in-neighbors, by weight."""
        return self._normalize(mean=True)

    @property
    def in_edges(self) -> Edges:
        """The edges of this view and self-loops, sorted by target."""
        return self._select_edges(self.graph.in_edges, ends=(1, 0))

    def _normalize(self, mean: bool) -> SparseMatrix:
        num_nodes = self.graph.num_nodes
        if self.slow_nodes is None:
            in_edges = self.in_edges
            out_edges = self._select_edges(self.graph.out_edges, ends=(0, 1))
        else:
            in_edges = self.slow_nodes.edges
            out_edges = sort_by_row(in_edges._replace(row=in_edges.column, column=in_edges.row))
            num_nodes += len(self.slow_nodes.source)
        return normalize_edges(in_edges, out_edges, num_nodes, None if self.graph.is_normalized else mean)

    def _select_edges(self, edges: Edges, ends: tuple[int, int]) -> Edges:
        """The edges of this view; `ends` says which rows of `extra_edges` are row and column of the matrix."""
        if self.edge_mask is not None:
            keep_loop = self.edge_mask.new_ones(1)  # self-loops are never dropped
            edges = edges.select(torch.cat([self.edge_mask, keep_loop])[edges.position].nonzero().flatten())
        if self.extra_edges is None:
            return edges
        assert not self.graph.is_normalized, "extra edges have no entries of their own"
        row, column = (torch.cat([old, self.extra_edges[end]]) for old, end in zip(edges[:2], ends, strict=True))
        weight = edges.weight
        if weight is not None:  # that of an average edge
            weight = torch.cat([weight, weight.mean().expand(self.extra_edges.size(1))])
        return sort_by_row(Edges(row, column, torch.empty_like(row), weight))


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
        target, source, _, edge_weight = self.view.in_edges
        assert edge_weight is None, "methods with such layers are refused for graphs with weights"
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
