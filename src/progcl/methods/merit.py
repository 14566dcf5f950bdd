"""MERIT: contrast two views of the graph with each other, and with a network that follows the first slowly."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from progcl.graph.augmentations import random_edges
from progcl.graph.diffusion import top_ppr_edges
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.views import Graph, View
from progcl.losses.infonce import InfoNCE, OneWay
from progcl.methods.grace import Context
from progcl.nn.heads import Head


class Merit(nn.Module):
    """Online network (encoder, projector, predictor) and target network, over a graph and its diffusion.

    J = β InfoNCE(h₁, h₂) + (1-β)/2 [ℓ(h₁, t₂) + ℓ(h₂, t₁)],

    h being the online network's predictions, with negatives between and within the views, and t the target network's
    projections, without gradient, with negatives between the networks. The target's parameters are a moving average
    of the online ones. View 1 has edges dropped and added, view 2 the strongest links of personalized PageRank.
    """

    def __init__(self, parts: Context) -> None:
        super().__init__()
        self.parts = parts
        config, init = parts.config, parts.generators["init"]
        sizes = (parts.shape.hidden, parts.shape.projection)
        self.encoder = parts.encoder()
        self.projector = Head(*sizes, init)
        self.predictor = Head(*sizes, init)
        self.target = copy.deepcopy(nn.ModuleList([self.encoder, self.projector])).requires_grad_(False)
        self.criterion = parts.make_criterion(InfoNCE, "miner", config.mined != "networks")
        ways = (parts.make_criterion(OneWay, f"networks{number}", config.mined != "views") for number in (1, 2))
        self.between_networks = nn.ModuleList(ways)
        self.links = top_ppr_edges(parts.data, config.teleport, config.strongest, parts.progress)
        self.diffused: Graph | None = None

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the losses."""
        for criterion in (self.criterion, *self.between_networks):
            criterion.set_epoch(epoch)

    def loss(self, graph: Batch) -> Tensor:
        """Draw two views, and contrast them with each other and with the target network's."""
        assert isinstance(graph, Graph), "the links are those of the whole graph"
        seen = self.views(graph)
        h1, h2 = (self.predictor(self.projector(self.encoder(each))) for each in seen)
        encoder, projector = self.target
        with torch.no_grad():
            t1, t2 = (projector(encoder(each)) for each in seen)
        some = self.parts.draw_anchors()
        one, other = self.between_networks
        share = self.parts.config.balance
        between: Tensor = one(h1, t2, anchors=some) + other(h2, t1, anchors=some)
        loss: Tensor = share * self.criterion(h1, h2, some) + (1 - share) / 2 * between
        return loss

    def views(self, graph: Graph) -> tuple[View, View]:
        """The graph with edges dropped and added, and its diffusion with links dropped; both with columns dropped."""
        first, second = self.parts.generators["view1"], self.parts.generators["view2"]
        rates = list(zip(self.parts.config.drop_edges, self.parts.config.drop_features, strict=True))
        seen = graph.view(*rates[0], first)
        if self.parts.config.add_edges:
            added = random_edges(graph, self.parts.config.add_edges, first)
            seen = View(graph, seen.kept_edges, seen.kept_columns, added)
        return seen, self.diffusion(graph).view(*rates[1], second)

    def diffusion(self, graph: Graph) -> Graph:
        """The graph with the links as its edges, made ready once."""
        if self.diffused is None or self.diffused.features is not graph.features:
            self.diffused = graph.with_edges(*self.links)
        return self.diffused

    @torch.no_grad()
    def after_step(self) -> None:
        """Let the target follow: θ' ← m θ' + (1-m) θ."""
        online = nn.ModuleList([self.encoder, self.projector]).parameters()
        for old, new in zip(self.target.parameters(), online, strict=True):
            old.lerp_(new, 1 - self.parts.config.momentum)

    @torch.no_grad()
    def embed(self, graph: GraphInput, progress: bool = False) -> Tensor:
        """Embeddings [N, hidden] of the whole graph: the online encoder's over its edges plus those over its links."""
        assert isinstance(graph, Graph), "the links are those of the whole graph"
        embeddings: Tensor = self.encoder(View(graph)) + self.encoder(View(self.diffusion(graph)))
        return embeddings
