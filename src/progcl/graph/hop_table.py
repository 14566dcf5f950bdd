"""Features propagated by several hops, side by side, computed once before training.

An encoder of such rows passes no messages while it is trained: the cost of a step does not depend on the edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops

from progcl.distributed import shard_slice
from progcl.graph.batching import BatchLoader
from progcl.graph.hop_features import ROWS_PER_CHUNK, project, stack_hops
from progcl.graph.sampler import NeighborSampler
from progcl.graph.sparse import drop_entries
from progcl.graph.views import LayerInput
from progcl.progress import bar


class HopTable(BatchLoader["TableBatch"]):
    """[F, ÂF, Â²F, ...] with unit rows in each block, F being the features projected on their leading directions.

    Args:
        data: the graph
        directions: the projection of its features, [features, rank]
        hops: the powers of Â, one block each
        walk: steps of a random walk to the node whose row replaces a node's own in a view
        size: nodes of a batch; None for all
        seed: of shuffling and sampling
        steps: batches of an epoch; None for a full pass
        fixed: the same batches in the same order in every epoch
        shard: (rank, world size): which of as many equal slices of every batch this process embeds
        directed: in place of a block of Â, one along the edges and one against them
    """

    def __init__(
        self,
        data: Data,
        directions: Tensor,
        hops: Sequence[int],
        walk: int = 0,
        size: int | None = None,
        seed: int = 0,
        steps: int | None = None,
        fixed: bool = False,
        shard: tuple[int, int] = (0, 1),
        directed: bool = False,
    ) -> None:
        self.data = data
        self.num_nodes = int(data.num_nodes)
        nodes = torch.arange(self.num_nodes, device=data.edge_index.device)
        super().__init__(nodes, size or self.num_nodes, seed, steps, fixed, shard)
        self.is_full_batch = size is None
        self.rows = stack_hops(project(data.x, directions).to(nodes.device), data, hops, directed)
        self.num_features = self.rows.size(1)
        self.walk = walk

    @cached_property
    def walker(self) -> NeighborSampler:
        """Takes random walks over the edges; built when it is needed."""
        edges, weight = remove_self_loops(self.data.edge_index, self.data.get("edge_weight"))
        return NeighborSampler(edges, self.num_nodes, fanouts=[], edge_weight=weight)

    def draw(self, seeds: Tensor, local_seeds: Tensor, key: int, pairs: Tensor | None = None) -> TableBatch:
        """The rows of a batch."""
        if self.is_full_batch:
            return TableBatch(self, seeds, None)
        return TableBatch(self, local_seeds, seeds, self.shard, pairs)

    @torch.no_grad()
    def embed(self, encoder: Callable[[TableView], Tensor], progress: bool = False) -> Tensor:
        """Embeddings of all nodes [N, hidden]."""
        chunks = bar(progress, iterable=self.rows.split(ROWS_PER_CHUNK), desc="embed", leave=False)
        return torch.cat([encoder(TableView(chunk)) for chunk in chunks])


@dataclass(frozen=True)
class TableBatch:
    """A batch of table rows.

    Attributes:
        table: the whole table
        nodes: whose rows this process embeds
        seeds: all nodes that are contrasted with each other, over all processes; None for all nodes of the graph
        shard: (rank, world size): `nodes` are this slice of `seeds`
        pairs: positives among the seeds, as positions [2, P]; None where views are contrasted
    """

    table: HopTable
    nodes: Tensor
    seeds: Tensor | None
    shard: tuple[int, int] = (0, 1)
    pairs: Tensor | None = None

    def full_view(self) -> TableView:
        """The nodes' own rows, complete."""
        return TableView(self.table.rows[self.nodes], self.nodes)

    def restrict(self, seeds: Tensor, shard: tuple[int, int], pairs: Tensor | None = None) -> TableBatch:
        """The rows of some nodes: in this process, of their shard."""
        seeds = seeds.to(self.nodes.device)
        return TableBatch(self.table, seeds[shard_slice(len(seeds), shard)], seeds, shard, pairs)

    def view(self, edge_rate: float | Tensor, feature_rate: float | Tensor, generator: torch.Generator) -> TableView:
        """Drop single entries at random; `edge_rate` has no effect, as messages were passed before training.

        If the table has random walks, a node's row is replaced by that of the node where a walk from it ends. Draws are
        made for all seeds: the same however a batch is split over processes.
        """
        total = len(self.nodes if self.seeds is None else self.seeds)
        local, nodes = shard_slice(total, self.shard), self.nodes
        if self.table.walk:
            draws = torch.randint(2**62, (total, self.table.walk), generator=generator)
            nodes = self.table.walker.walk(nodes, draws[local].to(nodes.device))
        uniform = torch.rand(total, self.table.num_features, generator=generator)[local].to(nodes.device)
        return TableView(self.table.rows[nodes] * (uniform >= feature_rate), self.nodes)


@dataclass(frozen=True)
class TableView:
    """Rows of a table [n, F], some entries of which may be masked to 0.

    Attributes:
        rows: of the table
        nodes: whose embeddings they become [n], for training; None in evaluation
    """

    rows: Tensor
    nodes: Tensor | None = None

    def layer_input(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """Input of layer `number`: x, or the rows if x is None."""
        return _TableInput(self.rows if x is None else x, self.nodes)


class _TableInput:
    def __init__(self, x: Tensor, nodes: Tensor | None) -> None:
        self.x = x
        self.nodes = nodes

    def dropout(self, rate: float, key: int) -> LayerInput:
        assert self.nodes is not None, "dropout is for training"
        return _TableInput(drop_entries(self.x, self.nodes, rate, key), self.nodes)

    def propagate(self, weight: Tensor, mean: bool = False) -> Tensor:
        raise NotImplementedError("a hop table has no edges: its rows were propagated before training")

    def transform(self, weight: Tensor) -> Tensor:
        return self.x @ weight
