"""Chooses the encoder's input: full graph, batches with sampled neighbors, hop table, or images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor
from torch_geometric.data import Data

from progcl.config.schema import Config
from progcl.data.images import is_images
from progcl.distributed import SINGLE_PROCESS, Workers
from progcl.graph.hop_features import svd_directions
from progcl.graph.hop_table import HopTable, TableBatch
from progcl.graph.images import ImageSet
from progcl.graph.sampled import SampledBatch, SampledGraph
from progcl.graph.views import Graph
from progcl.seeding import derive_seed

GraphInput: TypeAlias = Graph | SampledGraph | HopTable | ImageSet
Batch: TypeAlias = Graph | SampledBatch | TableBatch  # the input of one training step


@dataclass(frozen=True)
class GraphLoader:
    """Turns any graph into the input that one configured encoder reads.

    Attributes:
        config: of the run
        directions: projection of the features [features, rank], fitted to the training graph; None without hop features
        shard: (rank, world size) of this process
        directed: whether hop features go along the edges and against them
    """

    config: Config
    directions: Tensor | None = None
    shard: tuple[int, int] = (0, 1)
    directed: bool = False

    @classmethod
    def for_training(
        cls,
        config: Config,
        x: Tensor,
        workers: Workers = SINGLE_PROCESS,
        directions: Tensor | None = None,
        directed: bool = False,
    ) -> GraphLoader:
        """The loader for training on nodes with features x [N, F]; the projection is fitted to these if not given."""
        if config.reads_hop_table and directions is None:
            directions = workers.broadcast(lambda: svd_directions(x, config.encoder.rank).cpu()).to(x.device)
        return cls(config, directions, workers.shard, directed)

    def graph(self, data: Data, nodes: Tensor | None = None) -> GraphInput:
        """The encoder's input for a graph; sampled batches are restricted to `nodes` and edges between them.

        Raises:
            InputError: the nodes are images, or edges have weights, and the method does not read these
        """
        if is_images(data):
            self.config.method.require("images")
            return ImageSet(data, **self._batch_options())
        if data.get("edge_weight") is not None:
            self.config.method.require("weights")
        if self.config.reads_hop_table:
            return self.hop_table(data)
        if self.config.batch.size is None:
            return Graph(data)
        options = self._batch_options()
        return SampledGraph(data, self.config.fanouts, replace=self.config.batch.replace, nodes=nodes, **options)

    def hop_table(self, data: Data) -> HopTable:
        """The hop table of a graph."""
        assert self.directions is not None
        encoder, walk = self.config.encoder, self.config.view_walk
        options = {**self._batch_options(), "directed": self.directed}
        return HopTable(data, self.directions, encoder.hops, walk, **options)

    def _batch_options(self) -> dict[str, Any]:
        batch, seed = self.config.batch, derive_seed(self.config.train.seed, "batches")
        return {
            "size": batch.size,
            "seed": seed,
            "steps": batch.steps,
            "fixed": batch.variant == "paper",
            "shard": self.shard,
        }
