"""A graph made ready for many views of it: edges sorted once, sparse features kept sparse."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.distributed import portion
from progcl.sampling import ranges, starting

DENSE = 0.1  # share of entries from which a dense product is the faster one


class Sparse(NamedTuple):
    """A sparse matrix and its transpose, both CSR: one for the forward, one for the backward product."""

    matrix: Tensor
    transpose: Tensor

    def rows(self, which: Tensor) -> Sparse:
        """Some rows of the matrix, ascending."""
        first, column, value = self.matrix.crow_indices(), self.matrix.col_indices(), self.matrix.values()
        counts = first.diff()[which]
        place = ranges(first[which], counts)
        new = torch.full((len(first) - 1,), -1, device=which.device)
        new[which] = torch.arange(len(which), device=which.device)
        first, turned = self.transpose.crow_indices(), new[self.transpose.col_indices()]
        kept = turned >= 0
        left = starting(kept)[first].diff()
        return Sparse(
            _csr(counts, column[place], value[place], self.matrix.size(1)),
            _csr(left, turned[kept], self.transpose.values()[kept], len(which)),
        )


class Edges(NamedTuple):
    """Edges and self-loops in the order of their rows; `position` is an edge's place in `edge_index`."""

    row: Tensor
    column: Tensor
    position: Tensor


class Step(Protocol):
    """What a layer sees: some nodes, and what they and their neighbours bring from the layer before."""

    def messages(self, weight: Tensor, mean: bool = False) -> Tensor:
        """Â x W for the layer's nodes, with Â normalised to D̂^-½ Â D̂^-½, or to the `mean` D̂⁻¹ Â."""

    def own(self, weight: Tensor) -> Tensor:
        """x W of the layer's nodes themselves."""


class Graph:
    """Features, and the edges with self-loops by target and by source, so that a view needs no sorting.

    Attributes:
        weight: of every edge, as a view passes messages on; None for edges that a view normalises
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

    def parts(self, epoch: int) -> Iterator[Graph]:
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
        other.seeds, other.targets = seeds, seeds[portion(len(seeds), part)]
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

    def step(self, number: int, x: Tensor | None, last: bool) -> Step:
        """What layer `number` sees: x of all nodes, or the features if there is none yet."""
        return _WholeStep(self, x, self.graph.targets if last else None)

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
                _csr(arriving, source, weight[place], nodes), _csr(leaving, turned, weight[turned_place], nodes)
            )
        if mean:
            share = arriving.float().reciprocal()
            return Sparse(_csr(arriving, source, share[target], nodes), _csr(leaving, turned, share[turned], nodes))
        scale = arriving.float().rsqrt()
        return Sparse(
            _csr(arriving, source, scale[target] * scale[source], nodes),
            _csr(leaving, turned, scale[other] * scale[turned], nodes),
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


class _WholeStep:
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


def scaled_rows(data: Data) -> Tensor:
    """The features, with the factors that mapped ones come with."""
    x: Tensor = data.x
    scale: Tensor | None = data.get("row_scale")
    return x if scale is None else x * scale.unsqueeze(1)


def sparse_or_dense(x: Tensor) -> Tensor | Sparse:
    """Features in the form of the faster product."""
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
