"""The form in which a run's encoder sees a graph: whole, in batches with sampled neighbors, or as a table of hops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.config.schema import Config
from progcl.distributed import SINGLE_PROCESS, Workers
from progcl.graph.hop_table import HopTable, TableBatch, svd_directions
from progcl.graph.sampled import SampledBatch, SampledGraph
from progcl.graph.views import Graph
from progcl.seeding import derive_seed

GraphInput: TypeAlias = Graph | SampledGraph | HopTable


Batch: TypeAlias = Graph | SampledBatch | TableBatch  # what a step sees


@dataclass(frozen=True)
class GraphLoader:
    """How one encoder sees any graph.

    Attributes:
        config: of the run
        directions: what the features of the graph that was trained on are reduced to; None if they are not
        part: which part of every batch to take, and of how many
    """

    config: Config
    directions: Tensor | None = None
    part: tuple[int, int] = (0, 1)

    @classmethod
    def of(cls, config: Config, x: Tensor, workers: Workers = SINGLE_PROCESS) -> GraphLoader:
        """The lens for training on nodes with these features."""
        directions = None
        if config.encoder.name == "hops" or config.encoder.with_features:
            directions = workers.broadcast(lambda: svd_directions(x, config.encoder.rank))
        return cls(config, directions, workers.part)

    def graph(self, data: Data, nodes: Tensor | None = None) -> GraphInput:
        """A graph in this form; in batches of `nodes` that see no others, if neighbors are sampled."""
        if self.config.encoder.name == "hops":
            return self.table(data)
        if self.config.batch.size is None:
            return Graph(data)
        return SampledGraph(
            data, self.config.fanouts, replace=self.config.batch.replace, nodes=nodes, **self._batches()
        )

    def table(self, data: Data) -> HopTable:
        """What reaches the nodes in some hops."""
        assert self.directions is not None
        return HopTable(data, self.directions, self.config.encoder.hops, self.config.method.walk, **self._batches())

    def finished(self, learned: Tensor, graph: GraphInput, data: Data) -> Tensor:
        """What was learned of a graph, with its features beside it if that is wanted."""
        if not self.config.encoder.with_features:
            return learned
        table = graph if isinstance(graph, HopTable) else self.table(data)
        return torch.cat([normalize(learned, dim=1), normalize(table.rows, dim=1)], dim=1)

    def _batches(self) -> dict[str, Any]:
        batch, seed = self.config.batch, derive_seed(self.config.train.seed, "batches")
        return {
            "size": batch.size,
            "seed": seed,
            "steps": batch.steps,
            "fixed": batch.variant == "paper",
            "part": self.part,
        }
