"""MERIT: contrast two views of the graph with each other, and with a network that follows the first slowly."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from progcl.augment import random_edges, view
from progcl.config import EncoderConfig, MethodConfig
from progcl.contrast import InfoNCE, OneWay
from progcl.diffusion import strongest_links
from progcl.encoders import ENCODERS, Head
from progcl.graph import Graph, View
from progcl.methods.grace import MakeCriterion, draw_anchors


class Merit(nn.Module):
    """Online network (encoder, projector, predictor) and target network, over a graph and its diffusion.

    J = β InfoNCE(h₁, h₂) + (1-β)/2 [ℓ(h₁, t₂) + ℓ(h₂, t₁)],

    h being the online network's predictions, with negatives between and within the views, and t the target network's
    projections, without gradient, with negatives between the networks. The target's parameters are a moving average
    of the online ones. View 1 has edges dropped and added, view 2 the strongest links of personalised PageRank.

    Args:
        data: the graph that will be trained on
        config: drop rates, diffusion, momentum, and what is mined
        encoder: the network's shape
        make_criterion: makes a loss with a miner of its own
        generators: `init` for the parameters, `view1` and `view2` for the views, `anchors` for the nodes of a step
        anchors: nodes contrasted in a step; None for all
        progress: show a bar while links are computed
    """

    def __init__(
        self,
        data: Data,
        config: MethodConfig,
        encoder: EncoderConfig,
        make_criterion: MakeCriterion,
        generators: dict[str, torch.Generator],
        anchors: int | None = None,
        progress: bool = False,
    ) -> None:
        super().__init__()
        init = generators["init"]
        shape = (data.x.size(1), encoder.hidden, encoder.layers, encoder.activation)
        self.encoder = ENCODERS[encoder.name](*shape, init)
        self.projector = Head(encoder.hidden, encoder.projection, init)
        self.predictor = Head(encoder.hidden, encoder.projection, init)
        self.target = copy.deepcopy(nn.ModuleList([self.encoder, self.projector])).requires_grad_(False)
        self.criterion = make_criterion(InfoNCE, "miner", config.mined != "networks")
        ways = (make_criterion(OneWay, f"networks{number}", config.mined != "views") for number in (1, 2))
        self.between_networks = nn.ModuleList(ways)
        self.config = config
        self.generators = generators
        self.anchors = anchors
        self.links = strongest_links(data, config.teleport, config.strongest, progress)
        self.diffused: Graph | None = None

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the losses."""
        for criterion in (self.criterion, *self.between_networks):
            criterion.set_epoch(epoch)

    def loss(self, graph: Graph) -> Tensor:
        """Draw two views, and contrast them with each other and with the target network's."""
        seen = self.views(graph)
        h1, h2 = (self.predictor(self.projector(self.encoder(each))) for each in seen)
        encoder, projector = self.target
        with torch.no_grad():
            t1, t2 = (projector(encoder(each)) for each in seen)
        some = draw_anchors(graph, self.anchors, self.generators["anchors"])
        one, other = self.between_networks
        share = self.config.balance
        between: Tensor = one(h1, t2, anchors=some) + other(h2, t1, anchors=some)
        loss: Tensor = share * self.criterion(h1, h2, some) + (1 - share) / 2 * between
        return loss

    def views(self, graph: Graph) -> tuple[View, View]:
        """The graph with edges dropped and added, and its diffusion with links dropped; both with columns dropped."""
        first, second = self.generators["view1"], self.generators["view2"]
        rates = list(zip(self.config.drop_edges, self.config.drop_features, strict=True))
        seen = view(graph, *rates[0], first)
        if self.config.add_edges:
            added = random_edges(graph, self.config.add_edges, first)
            seen = View(graph, seen.kept_edges, seen.kept_columns, added)
        return seen, view(self.diffusion(graph), *rates[1], second)

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
            old.lerp_(new, 1 - self.config.momentum)

    @torch.no_grad()
    def embed(self, graph: Graph) -> Tensor:
        """Embeddings [N, hidden] of the whole graph: the online encoder's over its edges plus those over its links."""
        embeddings: Tensor = self.encoder(View(graph)) + self.encoder(View(self.diffusion(graph)))
        return embeddings
