"""Batches of seed nodes with sampled neighbors, and layer-wise embedding of all nodes, for large graphs."""

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
from progcl.graph.sparse import SparseMatrix, choose_format, concat_ranges, row_pointer
from progcl.graph.views import LayerInput
from progcl.progress import bar
from progcl.seeding import HASH_RANGE, hash_pairs

NEIGHBORS_PER_CHUNK = 2**22  # rows gathered at a time to embed all nodes


class LayerwiseEncoder(Protocol):
    """An encoder that can be run one layer at a time over all nodes."""

    layers: nn.ModuleList

    def layer(self, number: int, inputs: LayerInput) -> Tensor:
        """Output of one layer."""


class NodeFeatures:
    """Features of all nodes: dense rows, perhaps in a memory-mapped file, or sparse ones.

    Results are on the device of the edges. Mapped rows stay in the file until they are needed.

    Attributes:
        x: rows [N, F]
        scale: factor of every row [N], None for 1
        num_features: F
    """

    def __init__(self, data: Data) -> None:
        self.x = data.x if data.get("mapped") else choose_format(data.x)
        scale: Tensor | None = data.get("row_scale")
        self.scale = None if scale is None else scale.to(data.x.device)
        self.num_features = int(data.x.size(1))
        self.device = data.edge_index.device

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are stored as a sparse matrix."""
        return isinstance(self.x, SparseMatrix)

    def gather(self, nodes: Tensor) -> Tensor:
        """X[nodes] of dense rows, [n, F]."""
        assert isinstance(self.x, Tensor)
        index = nodes.to(self.x.device)
        return (self.x[index] if self.scale is None else self.x[index] * self.scale[index, None]).to(self.device)

    def transform(self, nodes: Tensor, weight: Tensor) -> Tensor:
        """X[nodes] W of sparse rows, [n, d]."""
        assert isinstance(self.x, SparseMatrix)
        csr = self.x.csr
        start, counts = csr.crow_indices()[nodes], csr.crow_indices().diff()[nodes]
        entry = concat_ranges(start, counts)
        return sum_bags(weight, csr.col_indices()[entry], row_pointer(counts), csr.values()[entry])

    def aggregate(self, nodes: Tensor, rowptr: Tensor, weight: Tensor) -> Tensor:
        """Weighted sums of dense rows, one for each bag of `nodes` between two row pointers, [bags, F]."""
        assert isinstance(self.x, Tensor)
        index, rowptr, weight = (each.to(self.x.device) for each in (nodes, rowptr, weight))
        weight = weight if self.scale is None else weight * self.scale[index]
        return sum_bags(self.x, index, rowptr, weight).to(self.device)


class SampledGraph(BatchLoader["SampledBatch"]):
    """A graph in batches: the counterpart of `Graph` for graphs that are too large for one step.

    Args:
        data: the graph, with features perhaps in a mapped file
        fanouts: neighbors to sample per layer, those of the seeds first
        size: seeds of a batch
        seed: of shuffling and sampling
        replace: sample with replacement
        steps: batches of an epoch; None for a full pass over all seeds
        fixed: the same batches in the same order in every epoch
        nodes: restricts seeds and neighbors to these nodes; None for all
        shard: (rank, world size): which of as many equal slices of every batch this process embeds
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
        shard: tuple[int, int] = (0, 1),
    ) -> None:
        self.data = data
        self.num_nodes = int(data.num_nodes)
        device = data.edge_index.device
        nodes = None if nodes is None else nodes.to(device)
        seeds = torch.arange(self.num_nodes, device=device) if nodes is None else nodes
        super().__init__(seeds, size, seed, steps, fixed, shard)
        self.features = NodeFeatures(data)
        self.num_features = self.features.num_features
        mask, weight = _select_edges(data.edge_index, self.num_nodes, nodes), data.get("edge_weight")
        weight = None if weight is None else weight[mask]
        self.sampler = NeighborSampler(data.edge_index[:, mask], self.num_nodes, fanouts, replace, weight)

    @property
    def walker(self) -> NeighborSampler:
        """Takes random walks over the edges."""
        return self.sampler

    def draw(self, seeds: Tensor, local_seeds: Tensor, key: int, pairs: Tensor | None = None) -> SampledBatch:
        """A batch with sampled neighbors."""
        subgraph = self.sampler.sample(local_seeds, torch.Generator().manual_seed(key))
        batch = SampledBatch(self, subgraph, seeds, pairs)
        batch.target_rows  # noqa: B018 (gathered now, in the prefetching thread)
        return batch

    @torch.no_grad()
    def embed(self, encoder: LayerwiseEncoder, progress: bool = False) -> Tensor:
        """Embeddings of all nodes [N, hidden], layer by layer, from all neighbors of a chunk of nodes at a time."""
        x: Tensor | None = None
        chunk_size = max(1, NEIGHBORS_PER_CHUNK * self.num_nodes // max(1, len(self.sampler.neighbors)))
        total = len(encoder.layers) * self.num_nodes
        with bar(progress, desc="embed", total=total, unit="node", leave=False) as progress_bar:
            for number in range(len(encoder.layers)):
                output: Tensor | None = None
                for nodes in torch.arange(self.num_nodes, device=self.all_seeds.device).split(chunk_size):
                    subgraph = self.sampler.full_neighborhood(nodes)
                    source_x = None if x is None else x[subgraph.n_id]
                    rows = None if x is not None or self.features.is_sparse else self.features.gather(nodes)
                    inputs = _SampledInput(self, subgraph.n_id, subgraph.hops[0], source_x, rows)
                    chunk = encoder.layer(number, inputs)
                    output = chunk.new_empty(self.num_nodes, chunk.size(1)) if output is None else output
                    output[nodes] = chunk
                    progress_bar.update(len(nodes))
                x = output
        assert x is not None
        return x


@dataclass(frozen=True)
class SampledBatch:
    """Seed nodes with the sampled neighbors that their embedding needs.

    Attributes:
        graph: the graph that they are from
        subgraph: sampled neighbors of this process's seeds
        seeds: all nodes that are contrasted with each other
        pairs: positives among them, as positions [2, P]; None where views are contrasted
    """

    graph: SampledGraph
    subgraph: SampledSubgraph
    seeds: Tensor
    pairs: Tensor | None = None

    @cached_property
    def target_rows(self) -> Tensor | None:
        """Features of the first layer's target nodes, gathered once for both views; None for sparse features."""
        features = self.graph.features
        return None if features.is_sparse else features.gather(self.subgraph.n_id[: self.subgraph.hops[0].num_targets])

    def full_view(self) -> SampledView:
        """All sampled edges and all features."""
        return SampledView(self)

    def view(self, edge_rate: float | Tensor, feature_rates: float | Tensor, generator: torch.Generator) -> SampledView:
        """Drop sampled edges at one rate, and feature columns at one rate or one per column [F].

        Whether an edge is dropped is a hash of a random key, its target and its slot: the same however a batch is
        split over processes.
        """
        assert isinstance(edge_rate, float)
        device = self.seeds.device
        feature_mask = torch.rand(self.graph.num_features, generator=generator).to(device) >= feature_rates
        keys = torch.randint(2**31, (len(self.subgraph.hops),), generator=generator).tolist()
        edge_masks = []
        for hop, key in zip(self.subgraph.hops, keys, strict=True):
            counts = hop.rowptr.diff()
            slot = torch.arange(len(hop.column), device=device) - hop.rowptr[:-1].repeat_interleave(counts)
            target = self.subgraph.n_id[: hop.num_targets].repeat_interleave(counts)
            edge_masks.append(hash_pairs(key, target, slot) >= edge_rate * HASH_RANGE)
        return SampledView(self, tuple(edge_masks), feature_mask, 1 - edge_rate)


@dataclass(frozen=True)
class SampledView:
    """A batch with some edges of every hop and some feature columns masked out.

    Attributes:
        batch: the sampled batch
        edge_masks: for every hop, the edges to keep; None for all
        feature_mask: feature columns to keep [F]; None for all
        keep_rate: expected share of the edges that are kept
    """

    batch: SampledBatch
    edge_masks: tuple[Tensor, ...] | None = None
    feature_mask: Tensor | None = None
    keep_rate: float = 1

    def layer_input(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """Input of layer `number`: x of the hop's source nodes, or their features if x is None."""
        graph, subgraph = self.batch.graph, self.batch.subgraph
        edge_mask = None if self.edge_masks is None else self.edge_masks[number]
        rows = self.batch.target_rows if x is None else None
        masks = (edge_mask, self.feature_mask, self.keep_rate)
        return _SampledInput(graph, subgraph.n_id, subgraph.hops[number], x, rows, *masks)


class _SampledInput:
    """The first `hop.num_targets` nodes of `n_id` as targets, with sampled neighbors.

    x is the previous layer's output for the hop's source nodes. If it is None, features are read: `rows` of the
    targets, or sparse ones. GCN's normalization takes the degrees of the whole graph, or the sums of weights, sampled
    neighbors being scaled up to stand for all: the layer is unbiased. The mean is over the sampled neighbors, as in
    GraphSAGE.
    """

    def __init__(
        self,
        graph: SampledGraph,
        n_id: Tensor,
        hop: Hop,
        x: Tensor | None,
        rows: Tensor | None,
        edge_mask: Tensor | None = None,
        feature_mask: Tensor | None = None,
        keep_rate: float = 1,
    ) -> None:
        self.features, self.sampler, self.n_id, self.hop, self.x = graph.features, graph.sampler, n_id, hop, x
        self.rows = rows if x is None else x[: hop.num_targets]
        self.feature_mask = feature_mask if x is None else None
        self.keep_rate = keep_rate
        self.counts, self.column, self.rowptr = hop.rowptr.diff(), hop.column.long(), hop.rowptr
        self.weight = hop.weight
        if edge_mask is not None:
            self.rowptr = row_pointer(edge_mask)[hop.rowptr]
            self.counts, self.column = self.rowptr.diff(), self.column[edge_mask]
            self.weight = None if hop.weight is None else hop.weight[edge_mask]

    def propagate(self, weight: Tensor, mean: bool = False) -> Tensor:
        edge_weight, loop_weight = self._normalize_mean() if mean else self._normalize_symmetric()
        weight = self._mask_rows(weight)
        if self.rows is None:
            x = self.features.transform(self.n_id[: self.hop.num_sources], weight)
            return sum_bags(x, self.column, self.rowptr, edge_weight) + loop_weight * x[: self.hop.num_targets]
        if self.x is None:
            total = self.features.aggregate(self.n_id[self.column], self.rowptr, edge_weight)
        else:
            total = sum_bags(self.x, self.column, self.rowptr, edge_weight)
        return total.addcmul_(self.rows, loop_weight) @ weight

    def dropout(self, rate: float, key: int) -> LayerInput:
        raise NotImplementedError("features of sampled neighbors are summed without being gathered: no dropout")

    def transform(self, weight: Tensor) -> Tensor:
        weight = self._mask_rows(weight)
        if self.rows is None:
            return self.features.transform(self.n_id[: self.hop.num_targets], weight)
        return self.rows @ weight

    def _mask_rows(self, weight: Tensor) -> Tensor:
        """A dropped column of X is a dropped row of W."""
        return weight if self.feature_mask is None else weight * self.feature_mask.unsqueeze(1)

    def _normalize_mean(self) -> tuple[Tensor, Tensor]:
        """Weights of the edges [E] and of the self-loops [targets, 1] in D̂⁻¹ Â."""
        total = self.counts.float()
        if self.weight is not None:
            row = torch.arange(len(total), device=total.device).repeat_interleave(self.counts)
            total = torch.zeros_like(total).index_add_(0, row, self.weight)
        loop_weight = (total + 1).reciprocal()
        return self._weigh(loop_weight.repeat_interleave(self.counts)), loop_weight.unsqueeze(1)

    def _normalize_symmetric(self) -> tuple[Tensor, Tensor]:
        """Weights of the edges [E] and of the self-loops [targets, 1] in D̂^-½ Â D̂^-½."""
        sources, num_targets = self.n_id[: self.hop.num_sources], self.hop.num_targets
        strength, loop = self.sampler.strength[sources].float(), self.sampler.loop_weight(sources)
        scale = strength.mul(self.keep_rate).add_(loop).rsqrt()
        target_scale = scale[:num_targets]
        strength_per_sample = strength[:num_targets] / self.hop.rowptr.diff().clamp_min(1)
        edge_weight = (target_scale * strength_per_sample).repeat_interleave(self.counts) * scale[self.column]
        own = target_scale.square()
        return self._weigh(edge_weight), (own if isinstance(loop, int) else own * loop[:num_targets]).unsqueeze(1)

    def _weigh(self, values: Tensor) -> Tensor:
        return values if self.weight is None else values * self.weight


def sum_bags(table: Tensor, index: Tensor, rowptr: Tensor, weight: Tensor) -> Tensor:
    """Σ weight · table[index] over each bag, [bags, d]; bag i is rowptr[i]:rowptr[i + 1] of index and weight."""
    out: Tensor = _SumBags.apply(table, index.long(), rowptr, weight.to(table.dtype))  # type: ignore[no-untyped-call]
    return out


class _SumBags(torch.autograd.Function):
    """The gradient of a table row is a bag too: of the gradients of those bags that contain the row."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, rowptr: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(index, rowptr, weight)
        ctx.num_rows = len(table)
        return _embedding_bag(table, index, rowptr, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        index, rowptr, weight = ctx.saved_tensors
        counts = rowptr.diff()
        bag = torch.arange(len(counts), device=index.device).repeat_interleave(counts)
        order = index.argsort(stable=True)
        transpose_rowptr = row_pointer(torch.bincount(index, minlength=ctx.num_rows))
        return _embedding_bag(grads[0], bag[order], transpose_rowptr, weight[order]), None, None, None


def _embedding_bag(table: Tensor, index: Tensor, rowptr: Tensor, weight: Tensor) -> Tensor:
    table = table.contiguous()  # embedding_bag is slow on any other
    return embedding_bag(index, table, rowptr, mode="sum", per_sample_weights=weight, include_last_offset=True)


def _select_edges(edge_index: Tensor, num_nodes: int, nodes: Tensor | None) -> Tensor:
    """Mask [E] of edges that are no self-loops, and only those between `nodes`; None for all."""
    source, target = edge_index
    mask: Tensor = source != target
    if nodes is not None:
        member = torch.zeros(num_nodes, dtype=torch.bool, device=nodes.device).index_fill_(0, nodes, True)
        mask &= member[source] & member[target]
    return mask
