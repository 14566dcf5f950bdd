"""A graph as a table: what a node holds and what reaches it in a few hops, side by side, computed once.

An encoder of such rows needs no message passing while it is trained: a step costs as much on any graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data
from torch_geometric.utils import remove_self_loops

from progcl.distributed import shard_slice
from progcl.graph.batching import BatchLoader
from progcl.graph.sampler import NeighborSampler
from progcl.graph.sparse import propagate
from progcl.graph.views import Graph, LayerInput, View
from progcl.progress import bar

CHUNK = 2**14  # rows that are read together
WIDE = 2048  # columns up to which their products are collected, which reads every row once


class HopTable(BatchLoader["TableBatch"]):
    """[F, ÂF, Â²F, ...] with rows of length 1 in each block, F the features on their strongest directions.

    Args:
        data: the graph
        directions: what its features are reduced to, [features, rank]
        hops: how many times each block is propagated
        walk: random steps from a node to the one whose row stands for it in a view
        size: nodes of a batch; None for all
        seed: of the batches, as are steps, fixed and part
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
        part: tuple[int, int] = (0, 1),
    ) -> None:
        self.nodes = int(data.num_nodes)
        super().__init__(torch.arange(self.nodes), size or self.nodes, seed, steps, fixed, part)
        self.whole = size is None
        self.rows = stack_hops(reduced(data.x, directions), data, hops)
        self.columns = self.rows.size(1)
        self.walk = walk
        self.edge_index = data.edge_index

    @cached_property
    def paths(self) -> NeighborSampler:
        """For the walks of views; a table that is only embedded needs none."""
        return NeighborSampler(remove_self_loops(self.edge_index)[0], self.nodes, fanouts=[])

    def draw(self, seeds: Tensor, own: Tensor, key: int) -> TableBatch:
        """The rows of a batch."""
        return TableBatch(self, seeds, None) if self.whole else TableBatch(self, own, seeds, self.part)

    @torch.no_grad()
    def embed(self, encoder: Callable[[TableView], Tensor], progress: bool = False) -> Tensor:
        """Embeddings of all nodes [N, hidden]."""
        parts = bar(progress, iterable=self.rows.split(CHUNK), desc="embed", leave=False)
        return torch.cat([encoder(TableView(part)) for part in parts])


@dataclass(frozen=True)
class TableBatch:
    """Rows of a table that a step sees, those of `nodes`: the `part` of all `seeds` (None: all nodes) embedded here."""

    table: HopTable
    nodes: Tensor
    seeds: Tensor | None
    part: tuple[int, int] = (0, 1)

    def of(self, seeds: Tensor, part: tuple[int, int]) -> TableBatch:
        """The rows of some nodes: in this process, of their `part`."""
        return TableBatch(self.table, seeds[shard_slice(len(seeds), part)], seeds, part)

    def view(self, edge_rate: float | Tensor, feature_rate: float | Tensor, generator: torch.Generator) -> TableView:
        """What chance leaves of the entries, each by itself, whoever embeds it; edges have been followed already.

        Where the table has walks, they are the entries of the node that a walk from here ends at.
        """
        total = len(self.nodes if self.seeds is None else self.seeds)
        own, nodes = shard_slice(total, self.part), self.nodes
        if self.table.walk:
            draws = torch.randint(2**62, (total, self.table.walk), generator=generator)
            nodes = self.table.paths.walk(nodes, draws[own])
        chance = torch.rand(total, self.table.columns, generator=generator)[own]
        return TableView(self.table.rows[nodes] * (chance >= feature_rate))


@dataclass(frozen=True)
class TableView:
    """Rows of the table, some entries of which may be 0."""

    rows: Tensor

    def step(self, number: int, x: Tensor | None, last: bool) -> LayerInput:
        """What layer `number` sees."""
        return _TableInput(self.rows if x is None else x)


class _TableInput:
    def __init__(self, x: Tensor) -> None:
        self.x = x

    def messages(self, weight: Tensor, mean: bool = False) -> Tensor:
        raise NotImplementedError("rows hold what messages have brought")

    def own(self, weight: Tensor) -> Tensor:
        return self.x @ weight


def stack_hops(x: Tensor, data: Data, hops: Sequence[int]) -> Tensor:
    """Âʰx for every h of `hops`, each with rows of length 1."""
    adjacency = View(Graph(Data(x=x[:, :0], edge_index=data.edge_index, num_nodes=len(x)))).symmetric
    blocks = []
    for hop in range(max(hops) + 1):
        x = propagate(x, adjacency) if hop else x
        if hop in hops:
            blocks.append(normalize(x, dim=1))
    return torch.cat(blocks, dim=1)


def svd_directions(x: Tensor, rank: int) -> Tensor:
    """The right singular vectors [features, rank] of unit rows; the identity where there are no more columns."""
    columns = x.size(1)
    if columns <= rank:
        return torch.eye(columns)
    if columns <= WIDE:
        products = sum(part.T @ part for part in (normalize(rows, dim=1).double() for rows in x.split(CHUNK)))
        assert isinstance(products, Tensor)
        directions = torch.linalg.eigh(products).eigenvectors[:, -rank:].flip(1).float()
    else:
        unit = csr_matrix(normalize(x, dim=1).numpy())
        directions = torch.from_numpy(np.ascontiguousarray(randomized_svd(unit, rank, random_state=0)[2].T)).float()
    largest: Tensor = directions.gather(0, directions.abs().argmax(dim=0, keepdim=True))
    upright: Tensor = directions * largest.sign()  # else it is the solver's whim
    return upright


def reduced(x: Tensor, directions: Tensor) -> Tensor:
    """Unit rows on the directions, [N, rank]."""
    return torch.cat([normalize(rows, dim=1) @ directions for rows in x.split(CHUNK)])
