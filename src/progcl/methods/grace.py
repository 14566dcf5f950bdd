"""GRACE and GCA: contrast every node in two views of the graph with all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from progcl.config.schema import EncoderConfig, MethodConfig
from progcl.distributed import SINGLE_PROCESS, Workers
from progcl.graph.augmentations import adaptive_rates, edge_unimportance, feature_unimportance
from progcl.graph.loader import Batch, GraphInput
from progcl.graph.sampled import SampledBatch
from progcl.losses.infonce import InfoNCE
from progcl.nn.encoders import ENCODERS, MLP
from progcl.nn.heads import Projector


class MakeCriterion(Protocol):
    """Makes a loss; its miner, if it has one, gets random numbers of its own by `name`."""

    def __call__(self, kind: type[InfoNCE], name: str, mined: bool = True) -> InfoNCE:
        """A loss of this kind, with the configured miner or with none."""


@dataclass(frozen=True)
class Context:
    """What a method is made of.

    Attributes:
        data: the graph that will be trained on
        columns: features that the encoder reads
        config: of the method
        shape: of the encoder and what follows it
        make_criterion: makes a loss with a miner of its own
        generators: `init` for the parameters, `view1` and `view2` for the views, `anchors` for the nodes of a step
        anchors: nodes contrasted in a step; None for all
        workers: the processes of the run
        progress: show a bar on long preparations
    """

    data: Data
    columns: int
    config: MethodConfig
    shape: EncoderConfig
    make_criterion: MakeCriterion
    generators: dict[str, torch.Generator]
    anchors: int | None = None
    workers: Workers = SINGLE_PROCESS
    progress: bool = False

    def encoder(self) -> MLP:
        """A new encoder."""
        shape = self.shape
        sizes = (self.columns, shape.hidden, shape.layers, shape.activation)
        return ENCODERS[shape.name](*sizes, self.generators["init"])

    def draw_anchors(self) -> Tensor | None:
        """Nodes to contrast in a step, ascending; None for all."""
        nodes = int(self.data.num_nodes)
        if self.anchors is None or self.anchors >= nodes:
            return None
        return torch.randperm(nodes, generator=self.generators["anchors"])[: self.anchors].sort().values


class Grace(nn.Module):
    """Two views with edges and features dropped at random, one encoder, one projector, one contrastive loss."""

    def __init__(self, parts: Context) -> None:
        super().__init__()
        self.parts = parts
        self.encoder = parts.encoder()
        self.projector = Projector(parts.shape.hidden, parts.shape.projection, parts.generators["init"])
        self.criterion = parts.make_criterion(InfoNCE, "miner")
        self.rates = self.drop_rates(parts.data, parts.config)

    def drop_rates(self, data: Data, config: MethodConfig) -> list[tuple[float | Tensor, float | Tensor]]:
        """Edge and feature drop rates of view 1 and view 2."""
        return list(zip(config.drop_edges, config.drop_features, strict=True))

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the loss."""
        self.criterion.set_epoch(epoch)

    def loss(self, part: Batch) -> Tensor:
        """Draw two views, and contrast a batch, all nodes, or as many as the configuration says."""
        anchors, workers = self.parts.draw_anchors(), self.parts.workers
        if anchors is not None and not self.criterion.miner.needs_all_nodes:
            assert not isinstance(part, SampledBatch), "a batch is contrasted as a whole"
            part, anchors = part.of(anchors, workers.part), None
        h1, h2 = (
            self.projector(self.encoder(part.view(*rates, self.parts.generators[name])))
            for rates, name in zip(self.rates, ("view1", "view2"), strict=True)
        )
        if part.seeds is not None:  # every process has embedded some of them
            h1, h2 = workers.gather(torch.cat([h1, h2], dim=1), len(part.seeds)).chunk(2, dim=1)
        loss: Tensor = self.criterion(h1, h2, anchors, part.seeds)
        return loss

    def after_step(self) -> None:
        """Nothing to do after an optimizer's step."""

    def embed(self, graph: GraphInput, progress: bool = False) -> Tensor:
        """Embeddings [N, hidden] of the whole graph, before the projector."""
        return graph.embed(self.encoder, progress)


class Gca(Grace):
    """GRACE with drop rates by importance: unimportant edges and features go first."""

    def drop_rates(self, data: Data, config: MethodConfig) -> list[tuple[float | Tensor, float | Tensor]]:
        """A rate for every edge and every feature column."""
        edges = edge_unimportance(data, config.centrality)
        features = feature_unimportance(data, config.centrality)
        rates = zip(config.drop_edges, config.drop_features, strict=True)
        return [(adaptive_rates(edges, first), adaptive_rates(features, second)) for first, second in rates]
