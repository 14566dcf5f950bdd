"""GRACE and GCA: contrast every node in two augmented views of the graph with all other nodes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.config.methods import GcaOptions, GraceOptions, ViewOptions
from progcl.graph.augmentations import adaptive_rates, edge_unimportance, feature_unimportance
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.sampled import SampledBatch
from progcl.losses import InfoNCE
from progcl.methods.base import Context, Method

Rates = list[tuple[float | Tensor, float | Tensor]]


class Grace(Method):
    """InfoNCE between two views with edges and feature columns dropped at random (Eq. 1-2).

    Zhu, Xu, Yu, Liu, Wu, Wang: Deep Graph Contrastive Representation Learning (2020).
    """

    Options: type[ViewOptions] = GraceOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.encoder = context.encoder()
        self.projector = context.projector()
        self.criterion = context.criterion(InfoNCE)
        self.rates = self.drop_rates(context.data)

    def drop_rates(self, data: Data) -> Rates:
        """Drop rates of edges and feature columns, in view 1 and view 2."""
        return list(zip(self.options.drop_edges, self.options.drop_features, strict=True))

    def loss(self, batch: Batch) -> Tensor:
        """Contrast two views of a batch, of all nodes, or of sampled anchors."""
        anchors, workers = self.context.sample_anchors(), self.context.workers
        if anchors is not None and not self.criterion.miner.needs_all_nodes:
            assert not isinstance(batch, SampledBatch), "a batch is contrasted as a whole"
            batch, anchors = batch.restrict(anchors, workers.shard), None
        h1, h2 = (
            self.projector(self.encoder(self.half_hop(batch.view(*rates, self.context.generator(name)))))
            for rates, name in zip(self.rates, ("view1", "view2"), strict=True)
        )
        if batch.seeds is not None:  # every process has embedded its shard of them
            h1, h2 = workers.gather(torch.cat([h1, h2], dim=1), len(batch.seeds)).chunk(2, dim=1)
        loss: Tensor = self.criterion(h1, h2, anchors, batch.seeds)
        return loss

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden], before the projector."""
        return graph.embed(self.encoder, self.context.progress)


class Gca(Grace):
    """GRACE with drop rates by centrality: unimportant edges and features are dropped more often.

    Zhu, Xu, Yu, Liu, Wu, Wang: Graph Contrastive Learning with Adaptive Augmentation (2021).
    """

    Options = GcaOptions

    def drop_rates(self, data: Data) -> Rates:
        """A rate for every edge and every feature column."""
        edges = edge_unimportance(data, self.options.centrality)
        features = feature_unimportance(data, self.options.centrality)
        rates = zip(self.options.drop_edges, self.options.drop_features, strict=True)
        return [(adaptive_rates(edges, first), adaptive_rates(features, second)) for first, second in rates]
