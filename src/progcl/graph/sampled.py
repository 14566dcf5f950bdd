"""A graph met in batches: some nodes at a time with sampled neighbors, and all nodes layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag
from torch_geometric.data import Data

from progcl.graph.batching import BatchLoader
from progcl.graph.sampler import Hop, NeighborSampler, SampledSubgraph
from progcl.graph.sparse import Sparse, ranges, row_pointer, sparse_or_dense
from progcl.graph.views import LayerInput
from progcl.progress import bar
from progcl.seeding import HASH_RANGE, hash_pairs

ROWS = 2**22  # of neighbors, read at a time to embed all nodes


class LayerwiseEncoder(Protocol):
    """An encoder that can be run one layer at a time over all nodes."""

    layers: nn.ModuleList

    def layer(self, number: int, step: LayerInput) -> Tensor:
        """Output of one layer."""


class Features:
    """What the nodes bring along: dense rows, which may lie in a mapped file, or sparse ones.

    Attributes:
        x: rows [N, F]
        scale: factor of every row [N], None for 1
    """

    def __init__(self, data: Data) -> None:
        self.x = data.x if data.get("mapped") else sparse_or_dense(data.x)
        self.scale: Tensor | None = data.get("row_scale")
        self.columns = int(data.x.size(1))

    @property
    def sparse(self) -> bool:
        """Whether rows hold little more than zeros."""
        return isinstance(self.x, Sparse)

    def rows(self, nodes: Tensor) -> Tensor:
        """X[nodes] of dense rows."""
        assert isinstance(self.x, Tensor)
        return self.x[nodes] if self.scale is None else self.x[nodes] * self.scale[nodes, None]

    def transform(self, nodes: Tensor, weight: Tensor) -> Tensor:
        """X[nodes] W of sparse rows."""
        assert isinstance(self.x, Sparse)
        matrix = self.x.matrix
        first, counts = matrix.crow_indices()[nodes], matrix.crow_indices().diff()[nodes]
        place = ranges(first, counts)
        return bags(weight, matrix.col_indices()[place], row_pointer(counts), matrix.values()[place])

    def summed(self, nodes: Tensor, starts: Tensor, share: Tensor) -> Tensor:
        """Σ share x of some dense rows for each bag of nodes."""
        assert isinstance(self.x, Tensor)
        return bags(self.x, nodes, starts, share if self.scale is None else share * self.scale[nodes])


class SampledGraph(BatchLoader["SampledBatch"]):
    """A graph in batches: the counterpart of `Graph` for graphs that are too large for one step.

    Args:
        data: the graph, with features perhaps in a mapped file
        fanouts: neighbors to draw, of the seeds first; one number a layer
        size: seeds of a batch
        seed: of batches and draws; every epoch's are a function of it and the epoch
        replace: draw with replacement
        steps: batches of an epoch; None for as many as meet every node
        fixed: the same batches in the same order in every epoch
        nodes: the seeds, and the only nodes that are seen at all; None for all
        part: which part of every batch to take, and of how many equal ones
    """

    def __init__(
        self,
        data: Data,
        fanouts: Sequence[int],
        size: int,
        seed: int,
        replace: bool = True,
        steps: int | None = None,
        fixed: bool = False,
        nodes: Tensor | None = None,
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.nodes = int(data.num_nodes)
        seeds = torch.arange(self.nodes) if nodes is None else nodes
        super().__init__(seeds, size, seed, steps, fixed, part)
        self.features = Features(data)
        self.columns = self.features.columns
        self.sampler = NeighborSampler(_proper(data.edge_index, self.nodes, nodes), self.nodes, fanouts, replace)

    def draw(self, seeds: Tensor, own: Tensor, key: int) -> SampledBatch:
        """A batch with drawn neighbors."""
        batch = self.sampler.sample(own, torch.Generator().manual_seed(key))
        made = SampledBatch(self, batch, seeds)
        made.rows  # noqa: B018 (read now, while others are computed with)
        return made

    @torch.no_grad()
    def embed(self, encoder: LayerwiseEncoder, progress: bool = False) -> Tensor:
        """Embeddings of all nodes [N, hidden], layer by layer, each from all neighbors of some nodes at a time."""
        x: Tensor | None = None
        chunks = torch.arange(self.nodes).split(max(1, ROWS * self.nodes // max(1, len(self.sampler.neighbors))))
        with bar(progress, desc="embed", total=len(encoder.layers) * self.nodes, unit="node", leave=False) as done:
            for number in range(len(encoder.layers)):
                made: Tensor | None = None
                for nodes in chunks:
                    batch = self.sampler.neighborhood(nodes)
                    before = None if x is None else x[batch.n_id]
                    rows = None if x is not None or self.features.sparse else self.features.rows(nodes)
                    out = encoder.layer(number, _SampledInput(self, batch.n_id, batch.hops[0], before, rows))
                    made = out.new_empty(self.nodes, out.size(1)) if made is None else made
                    made[nodes] = out
                    done.update(len(nodes))
                x = made
        assert x is not None
        return x


@dataclass(frozen=True)
class SampledBatch:
    """A batch's seeds with what they need to be embedded.

    Attributes:
        graph: that they are from
        batch: drawn neighbors of this process's seeds
        seeds: all that are contrasted with each other
    """

    graph: SampledGraph
    batch: SampledSubgraph
    seeds: Tensor

    @cached_property
    def rows(self) -> Tensor | None:
        """Features of the first layer's nodes, for both views; None for sparse ones."""
        features = self.graph.features
        return None if features.sparse else features.rows(self.batch.n_id[: self.batch.hops[0].targets])

    def view(self, edge_rate: float | Tensor, feature_rates: float | Tensor, generator: torch.Generator) -> SampledView:
        """What chance leaves of drawn edges and feature columns; drawn edges are dropped alike."""
        assert isinstance(edge_rate, float)
        kept_columns = torch.rand(self.graph.features.columns, generator=generator) >= feature_rates
        keys = torch.randint(2**31, (len(self.batch.hops),), generator=generator).tolist()
        kept = []
        for hop, key in zip(self.batch.hops, keys, strict=True):
            counts = hop.starts.diff()
            slot = torch.arange(len(hop.index)) - hop.starts[:-1].repeat_interleave(counts)
            target = self.batch.n_id[: hop.targets].repeat_interleave(counts)
            kept.append(hash_pairs(key, target, slot) >= edge_rate * HASH_RANGE)
        return SampledView(self, tuple(kept), kept_columns, 1 - edge_rate)


@dataclass(frozen=True)
class SampledView:
    """A batch of which some edges and feature columns are seen; `share` is how many of the edges, on average."""

    part: SampledBatch
    kept: tuple[Tensor, ...] | None = None
    kept_columns: Tensor | None = None
    share: float = 1

    def step(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """What layer `number` sees: the nodes that those after it need."""
        batch = self.part.batch
        kept = None if self.kept is None else self.kept[number]
        rows = self.part.rows if x is None else None
        return _SampledInput(
            self.part.graph, batch.n_id, batch.hops[number], x, rows, kept, self.kept_columns, self.share
        )


class _SampledInput:
    """The first `hop.targets` nodes of `n_id` with drawn neighbors.

    x is what the layer before made of the hop's sources; there being none, the targets' features are `rows`, or sparse.
    GCN's normalization is the whole graph's, with drawn neighbors standing for all: what a layer gives is right on
    average. The mean is that of the drawn neighbors, as GraphSAGE has it.
    """

    def __init__(
        self,
        graph: SampledGraph,
        n_id: Tensor,
        hop: Hop,
        x: Tensor | None,
        rows: Tensor | None,
        kept: Tensor | None = None,
        kept_columns: Tensor | None = None,
        share: float = 1,
    ) -> None:
        self.features, self.degree, self.n_id, self.hop, self.x = graph.features, graph.sampler.degree, n_id, hop, x
        self.rows = rows if x is None else x[: hop.targets]
        self.kept_columns = kept_columns if x is None else None
        self.share = share
        self.counts, self.index, self.starts = hop.starts.diff(), hop.index.long(), hop.starts
        if kept is not None:
            self.starts = row_pointer(kept)[hop.starts]
            self.counts, self.index = self.starts.diff(), self.index[kept]

    def messages(self, weight: Tensor, mean: bool = False) -> Tensor:
        share, own = self._mean() if mean else self._symmetric()
        weight = self._seen(weight)
        if self.rows is None:
            x = self.features.transform(self.n_id[: self.hop.sources], weight)
            return bags(x, self.index, self.starts, share) + own * x[: self.hop.targets]
        if self.x is None:
            summed = self.features.summed(self.n_id[self.index], self.starts, share)
        else:
            summed = bags(self.x, self.index, self.starts, share)
        return summed.addcmul_(self.rows, own) @ weight

    def own(self, weight: Tensor) -> Tensor:
        weight = self._seen(weight)
        if self.rows is None:
            return self.features.transform(self.n_id[: self.hop.targets], weight)
        return self.rows @ weight

    def _seen(self, weight: Tensor) -> Tensor:
        """A dropped column of X is a dropped row of W."""
        return weight if self.kept_columns is None else weight * self.kept_columns.unsqueeze(1)

    def _mean(self) -> tuple[Tensor, Tensor]:
        """The parts of each edge [E] and of the node itself [targets, 1] in D̂⁻¹ Â."""
        own = (self.counts + 1).float().reciprocal()
        return own.repeat_interleave(self.counts), own.unsqueeze(1)

    def _symmetric(self) -> tuple[Tensor, Tensor]:
        """The same in D̂^-½ Â D̂^-½."""
        degree = self.degree[self.n_id[: self.hop.sources]].float()
        scale = degree.mul(self.share).add_(1).rsqrt()
        own = scale[: self.hop.targets]
        stands_for = degree[: self.hop.targets] / self.hop.starts.diff().clamp_min(1)
        return (own * stands_for).repeat_interleave(self.counts) * scale[self.index], own.square().unsqueeze(1)


def bags(table: Tensor, index: Tensor, starts: Tensor, share: Tensor) -> Tensor:
    """Σ share · table[index] over each bag."""
    out: Tensor = _Bags.apply(table, index.long(), starts, share.to(table.dtype))  # type: ignore[no-untyped-call]
    return out


class _Bags(torch.autograd.Function):
    """The gradient of a row of the table is a bag too, of the gradients of those bags that hold the row."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, starts: Tensor, share: Tensor) -> Tensor:
        ctx.save_for_backward(index, starts, share)
        ctx.rows = len(table)
        return _summed(table, index, starts, share)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        index, starts, share = ctx.saved_tensors
        counts = starts.diff()
        bag = torch.arange(len(counts), device=index.device).repeat_interleave(counts)
        order = index.argsort(stable=True)
        turned = row_pointer(torch.bincount(index, minlength=ctx.rows))
        return _summed(grads[0], bag[order], turned, share[order]), None, None, None


def _summed(table: Tensor, index: Tensor, starts: Tensor, share: Tensor) -> Tensor:
    table = table.contiguous()  # embedding_bag is slow on any other
    return embedding_bag(index, table, starts, mode="sum", per_sample_weights=share, include_last_offset=True)


def _proper(edge_index: Tensor, nodes: int, seen: Tensor | None) -> Tensor:
    """Edges between two different nodes of those that are seen."""
    source, target = edge_index
    kept = source != target
    if seen is not None:
        inside = torch.zeros(nodes, dtype=torch.bool).index_fill_(0, seen, True)
        kept &= inside[source] & inside[target]
    return edge_index[:, kept]
