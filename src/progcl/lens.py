"""The form in which a run's encoder sees a graph: whole, in batches with sampled neighbours, or as a table of hops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.batches import Neighborhoods, Sampled
from progcl.distributed import ALONE, Workers
from progcl.graph import Graph
from progcl.hashing import derived_seed
from progcl.hops import Hops, Rows, strongest_directions
from progcl.schema import Config

Seen: TypeAlias = Graph | Sampled | Hops
Part: TypeAlias = Graph | Neighborhoods | Rows  # what a step sees


@dataclass(frozen=True)
class Lens:
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
    def of(cls, config: Config, x: Tensor, workers: Workers = ALONE) -> Lens:
        """The lens for training on nodes with these features."""
        directions = None
        if config.encoder.name == "hops" or config.encoder.with_features:
            directions = workers.from_leader(lambda: strongest_directions(x, config.encoder.rank))
        return cls(config, directions, workers.part)

    def graph(self, data: Data, nodes: Tensor | None = None) -> Seen:
        """A graph in this form; in batches of `nodes` that see no others, if neighbours are sampled."""
        if self.config.encoder.name == "hops":
            return self.table(data)
        if self.config.batch.size is None:
            return Graph(data)
        return Sampled(data, self.config.fanouts, replace=self.config.batch.replace, nodes=nodes, **self._batches())

    def table(self, data: Data) -> Hops:
        """What reaches the nodes in some hops."""
        assert self.directions is not None
        return Hops(data, self.directions, self.config.encoder.hops, self.config.method.walk, **self._batches())

    def finished(self, learned: Tensor, graph: Seen, data: Data) -> Tensor:
        """What was learned of a graph, with its features beside it if that is wanted."""
        if not self.config.encoder.with_features:
            return learned
        table = graph if isinstance(graph, Hops) else self.table(data)
        return torch.cat([normalize(learned, dim=1), normalize(table.rows, dim=1)], dim=1)

    def _batches(self) -> dict[str, Any]:
        batch, seed = self.config.batch, derived_seed(self.config.train.seed, "batches")
        return {
            "size": batch.size,
            "seed": seed,
            "steps": batch.steps,
            "fixed": batch.variant == "paper",
            "part": self.part,
        }
