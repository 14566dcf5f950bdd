"""MERIT: contrast two views of the graph with each other, and with a momentum encoder."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from progcl.config.methods import MeritOptions
from progcl.errors import InputError
from progcl.graph.augmentations import random_edges
from progcl.graph.diffusion import ppr_edges_above, top_ppr_edges
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.views import Graph, View
from progcl.losses import InfoNCE, OneWay
from progcl.methods.base import Context, Method
from progcl.nn.heads import Head
from progcl.nn.momentum import MomentumCopy


class Merit(Method):
    """InfoNCE between views, and between an online and a momentum network, over a graph and its diffusion.

    J = β InfoNCE(h₁, h₂) + (1-β)/2 [ℓ(h₁, t₂) + ℓ(h₂, t₁)],

    h being the online network's predictions, with negatives between and within the views, and t the target network's
    projections, without gradient, with negatives between the networks. The target's parameters are a moving average
    of the online ones. View 1 has edges dropped and added, view 2 the largest entries of personalized PageRank. A step
    takes the whole graph, or as published a window of consecutive nodes.

    Jin, Zheng, Li, Gong, Zhou, Pan: Multi-Scale Contrastive Siamese Networks for Self-Supervised Graph Representation
    Learning (2021).

    Raises:
        InputError: windows are to be reduced to some anchors
    """

    Options = MeritOptions

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        if self.options.windows and context.config.train.anchors is not None:
            raise InputError("a window is contrasted as a whole", "set --train.anchors null, or --method.windows 0")
        shape, init = context.config.encoder, context.generator("init")
        self.encoder = context.encoder()
        self.projector = Head(shape.hidden, shape.projection, init)
        self.predictor = Head(shape.hidden, shape.projection, init)
        self.target = MomentumCopy(nn.Sequential(self.encoder, self.projector))
        self.criterion = context.criterion(InfoNCE, mined=self.options.mined != "networks")
        self.between_networks = nn.ModuleList(
            context.criterion(OneWay, f"networks{number}", mined=self.options.mined != "views") for number in (1, 2)
        )
        self.links = self._diffuse()
        self.diffused: Graph | None = None

    @property
    def steps(self) -> int:
        """Number of windows in an epoch, or one step."""
        return self.options.windows or 1

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Random windows of consecutive nodes; the whole graph if it is no larger than one, or there are none."""
        graph, size = self.context.graph, self.options.window
        if not self.options.windows:
            yield graph
            return
        last = max(0, graph.num_nodes - size)
        for start in torch.randint(last + 1, (self.steps,), generator=self.context.generator("windows")).tolist():
            nodes = torch.arange(start, min(start + size, graph.num_nodes), device=graph.device)
            yield graph if len(nodes) == graph.num_nodes else self.window(graph, nodes)

    def window(self, graph: Graph, nodes: Tensor) -> Graph:
        """Consecutive nodes with the edges between them; their diffusion is that of the whole graph."""
        window = Graph(graph.data.subgraph(nodes))
        window.seeds = nodes
        return window

    def loss(self, batch: Batch) -> Tensor:
        """Contrast two views with each other and with the target network's projections."""
        assert isinstance(batch, Graph), "the diffusion is that of the whole graph"
        views = self.views(batch)
        h1, h2 = (self.predictor(self.projector(self.encoder(view))) for view in views)
        t1, t2 = (self.target(view) for view in views)
        anchors = self.context.sample_anchors()
        one, other = self.between_networks
        chosen = {"anchors": anchors, "nodes": batch.seeds}
        between: Tensor = one(h1, t2, **chosen) + other(h2, t1, **chosen)
        balance = self.options.balance
        loss: Tensor = balance * self.criterion(h1, h2, **chosen) + (1 - balance) / 2 * between
        return loss

    def views(self, graph: Graph) -> tuple[View, View]:
        """The graph with edges dropped and added, and its diffusion with edges dropped; both with columns dropped.

        The diffusion has weights, and so no slow nodes.
        """
        first, second = self.context.generator("view1"), self.context.generator("view2")
        rates = list(zip(self.options.drop_edges, self.options.drop_features, strict=True))
        view = graph.view(*rates[0], first)
        if self.options.add_edges:
            added = random_edges(graph, self.options.add_edges, first)
            view = View(graph, view.edge_mask, view.feature_mask, added)
        return self.half_hop(view), self.diffusion(graph).view(*rates[1], second)

    def diffusion(self, graph: Graph) -> Graph:
        """The graph with the diffusion's edges in place of its own, prepared once, or anew for a window."""
        if graph.seeds is not None:
            return graph.with_edges(*_cut(*self.links, graph.seeds))
        if self.diffused is None or self.diffused.features is not graph.features:
            self.diffused = graph.with_edges(*self.links)
        return self.diffused

    def _diffuse(self) -> tuple[Tensor, Tensor]:
        data, options, progress = self.context.data, self.options, self.context.progress
        if options.threshold:
            return ppr_edges_above(data, options.teleport, options.threshold, progress)
        return top_ppr_edges(data, options.teleport, options.strongest, progress)

    def after_step(self, progress: float) -> None:
        """Move the target network: θ' ← m θ' + (1-m) θ."""
        self.target.follow(nn.Sequential(self.encoder, self.projector), self.options.momentum)

    def embed(self, graph: GraphInput) -> Tensor:
        """Embeddings [N, hidden]: the online encoder's over the graph plus those over its diffusion."""
        assert isinstance(graph, Graph), "the diffusion is that of the whole graph"
        embeddings: Tensor = self.encoder(View(graph)) + self.encoder(View(self.diffusion(graph)))
        return embeddings


def _cut(edges: Tensor, weight: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Edges [2, E] between consecutive nodes [n], renumbered from 0, and their weights [E]."""
    inside = ((edges >= nodes[0]) & (edges <= nodes[-1])).all(dim=0)
    return edges[:, inside] - nodes[0], weight[inside]
