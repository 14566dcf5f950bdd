"""Neighbors as positives: embeddings of linked nodes are drawn together, those of all others pushed apart."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from progcl.config.methods import NeighborsOptions
from progcl.graph.batching import PairedSeeds
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.sampled import SampledBatch
from progcl.graph.sampler import NeighborSampler
from progcl.losses import InfoNCE
from progcl.losses.jsd import NeighborJSD
from progcl.methods.base import Context, Method
from progcl.seeding import HASH_RANGE, derive_seed, hash_pairs

KEY_RANGE = 2**62


class Neighbors(Method):
    """InfoNCE of one view whose positives are edges, `InfoNCE(tau, miner)(h, positives=edges)`, or a sigmoid loss.

    A batch is its seed nodes and the nodes that a random walk from each of them visits. Positives are the edges
    between any two nodes of the batch, and the pairs of a seed and a visited node; all other nodes of the batch are
    negatives, as are positives that are dropped at random. In a weighted graph, walks follow the weights, and an edge
    is kept with a probability in proportion to its weight, at most 1 (`weighted_rates`). With an encoder that does not
    see the edges (`svd`, `mlp`), they are what is learned; the embeddings may be smoothed over them afterwards
    (`output.smooth`). The objective `sigmoid` takes each pair by itself: `NeighborJSD(tau=tau)(h, edges)`.

    Neighbors as positives of one view, some of them negatives in each step, come from Sun, Chen, Qiao, Zheng, Wang:
    Single-View Graph Contrastive Learning with Soft Neighborhood Awareness (2025), whose loss is another.
    """

    Options = NeighborsOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.encoder = context.encoder()
        self.projector = context.projector(outputs=max(1, context.config.encoder.projection // 2))
        self.criterion = self._make_criterion()
        self.walker = context.graph.walker if not self.options.holdout else self._walker_without_heldout()

    def heldout_edges(self) -> Tensor | None:
        """The edges of `holdout`, in one direction."""
        if not self.options.holdout:
            return None
        source, target = edges = self.context.data.edge_index
        heldout: Tensor = edges[:, self._is_heldout(edges) & (source < target)]
        return heldout

    def optimizer(self) -> Optimizer:
        """AdamW."""
        train = self.context.config.train
        return AdamW(self.trained_parameters(), train.lr, weight_decay=train.weight_decay)

    def batches(self, epoch: int) -> Iterable[Batch]:
        """The loader's batches with the nodes that walks from the seeds visit; the full graph is one as it is."""
        return self.paired_batches(epoch, self.pair)

    def pair(self, seeds: Tensor, key: int) -> PairedSeeds:
        """Seeds and the nodes that walks from them visit, with the positives among them; random by the key."""
        generator = torch.Generator().manual_seed(key)
        walker = self.walker
        draws = torch.randint(KEY_RANGE, (len(seeds), self.options.steps), generator=generator)
        paths = walker.paths(seeds, draws.to(seeds.device))
        nodes, position = paths.unique(return_inverse=True)
        walked = torch.stack([position[:, :1].expand_as(position[:, 1:]), position[:, 1:]]).flatten(1)
        edges, weight = walker.weighted_edges(nodes)
        pairs = torch.cat([edges, walked, walked.flip(0)], dim=1)
        pairs = (pairs[0] * len(nodes) + pairs[1]).unique()
        rates: float | Tensor = self.options.drop_positives
        if weight is not None:
            rates = weighted_rates(pairs, edges[0] * len(nodes) + edges[1], weight, self.options.drop_positives)
        kept = pairs[torch.rand(len(pairs), generator=generator).to(pairs.device) >= rates]
        return PairedSeeds(nodes, torch.stack([kept // len(nodes), kept % len(nodes)]))

    def loss(self, batch: Batch) -> Tensor:
        """Contrast the nodes of a batch, of the whole graph, or of sampled anchors and what walks from them visit."""
        workers = self.context.workers
        if batch.pairs is None:
            anchors = self.context.sample_anchors()
            seeds = torch.arange(self.context.graph.num_nodes) if anchors is None else anchors
            key = int(torch.randint(KEY_RANGE, (), generator=self.context.generator("pairs")))
            nodes, pairs = self.pair(seeds.to(self.context.data.edge_index.device), key)
            assert not isinstance(batch, SampledBatch), "a sampled batch brings its pairs"
            batch = batch.restrict(nodes, workers.shard, pairs)
        h = self.projector(self.encoder(self.half_hop(batch.full_view())))
        if batch.seeds is not None:  # every process has embedded its shard of them
            h = workers.gather(h, len(batch.seeds))
        miners_need = {"nodes": batch.seeds} if self.options.objective == "infonce" else {}
        loss: Tensor = self.criterion(h, positives=batch.pairs, **miners_need)
        return loss

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden], before the projector."""
        return graph.embed(self.encoder, self.context.progress)

    def release(self) -> None:
        """Drop the training graph, the walks over it, and the loss."""
        super().release()
        del self.walker

    def _make_criterion(self) -> InfoNCE | NeighborJSD:
        config = self.context.config
        if self.options.objective == "infonce":
            return self.context.criterion(InfoNCE)
        return NeighborJSD(config.loss.tau, config.loss.block_size)

    def _is_heldout(self, edges: Tensor) -> Tensor:
        """Whether an edge is held out [E]: a hash of the seed and its two nodes, the same in both directions."""
        low, high = edges.min(dim=0).values, edges.max(dim=0).values
        seed = derive_seed(self.context.config.train.seed, "holdout")
        threshold: float = self.options.holdout * HASH_RANGE
        return hash_pairs(seed, low, high) < threshold

    def _walker_without_heldout(self) -> NeighborSampler:
        edges, weight = self.context.data.edge_index, self.context.data.get("edge_weight")
        mask = ~self._is_heldout(edges) & (edges[0] != edges[1])
        weight = None if weight is None else weight[mask]
        return NeighborSampler(edges[:, mask], int(self.context.data.num_nodes), fanouts=[], edge_weight=weight)


def weighted_rates(pairs: Tensor, edges: Tensor, weight: Tensor, rate: float) -> Tensor:
    """Probabilities [P] with which positives are dropped: 1 - (1 - rate) w, at least 0.

    w is the weight of an edge over the mean weight of its node's edges, and 1 for pairs that are no edges.

    Args:
        pairs: positives as numbers, ascending, [P]
        edges: those of them that are edges, [E]
        weight: w of the edges, [E]
        rate: where w = 1
    """
    relative = torch.ones(len(pairs), device=pairs.device)
    relative[torch.searchsorted(pairs, edges)] = weight
    return (rate + (1 - rate) * (1 - relative)).clamp_min(0)
