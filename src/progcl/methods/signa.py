"""SIGNA: neighbors as positives of one view, told from all other nodes by a Jensen-Shannon loss."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from progcl.config.methods import SignaOptions
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.views import Graph
from progcl.losses.jsd import NeighborJSD
from progcl.methods.base import Context, Method


class Signa(Method):
    """One view with dropout; edges that are kept in a step are positives, all other pairs negatives.

    The encoder is an MLP for most graphs: it never sees the edges, and embeds without them.

    Sun, Chen, Qiao, Zheng, Wang: Single-View Graph Contrastive Learning with Soft Neighborhood Awareness (2025).
    """

    Options = SignaOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.encoder = context.encoder()
        self.projector = context.projector()
        self.criterion = NeighborJSD(block_size=context.config.loss.block_size)

    def optimizer(self) -> Optimizer:
        """AdamW."""
        train = self.context.config.train
        return AdamW(self.trained_parameters(), train.lr, weight_decay=train.weight_decay)

    def loss(self, batch: Batch) -> Tensor:
        """Tell every node's kept neighbors from all other nodes."""
        assert isinstance(batch, Graph), "every node is told from all others"
        edges = self.context.data.edge_index
        kept = torch.rand(edges.size(1), generator=self.context.generator("edges")) >= self.options.drop_positives
        h = self.projector(self.encoder(self.half_hop(batch.full_view())))
        loss: Tensor = self.criterion(h, edges[:, kept.to(edges.device)])
        return loss

    def embed(self, graph: GraphInput) -> Tensor:
        """Encoder output [N, hidden], before the projector."""
        return graph.embed(self.encoder, self.context.progress)
