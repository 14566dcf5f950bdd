"""Walk vectors of a graph that is known, and of nodes that join it later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.data.edges import EDGE_ATTRIBUTES, edge_checksum
from progcl.data.structure import (
    DIMENSIONS,
    MAX_PAIRS,
    MAX_WIDE_NODES,
    WIDE,
    WalkPlan,
    factorize_walks,
    log_degrees,
    walk,
)
from progcl.errors import InputError, warn

MIN_WALKS, MAX_WALKS = 20, 800  # from a new node: as many as pass a node of mean degree when a graph is factorized
WALKS_PER_CHUNK = 2**21
COMPARED = 200  # nodes whose names are known, by which a graph is recognized
MIN_AGREEMENT = 0.3  # of their vectors: about 0 in a graph that has nothing in common but names
SEED = 1


@dataclass(frozen=True)
class WalkFactors:
    """DeepWalk's matrix M = UΣVᵀ of a graph, by which further nodes get walk vectors that are comparable.

    A new node i has the row M_ij = max(0, log(p(j | i) / p(j))) over the known nodes j: p(j | i) is how often walks
    from i in the larger graph visit j, a visit after t steps counting (window + 1 - t) / window. Since M V = UΣ, its
    vector is M_i V, with norm 1, as the others have. In latent semantic analysis, this is called folding in
    (Deerwester, Dumais, Furnas, Landauer, Harshman: Indexing by Latent Semantic Analysis, 1990). Known nodes keep
    their vectors.

    Attributes:
        names: of the known nodes, [N]
        vectors: UΣ with unit rows, [N, k]
        contexts: V √N in half precision, [N, k]; the factor leaves directions as they are
        frequency: p(j), [N]
        log_degree: the largest log(1 + degree), or that of each direction, which structural features are divided by
        graph: checksum of the edges
    """

    names: list[str]
    vectors: Tensor
    contexts: Tensor
    frequency: Tensor
    log_degree: tuple[float, ...]
    graph: int

    @classmethod
    def fit(cls, data: Data, dimensions: int | None = None) -> WalkFactors:
        """Factorize the matrix of a graph; dimensions are 256, or 128 on more than 200,000 nodes, if not given."""
        nodes, (edges, weight, forward) = int(data.num_nodes), _edges_of(data)
        chosen = dimensions or (WIDE if nodes <= MAX_WIDE_NODES else DIMENSIONS)
        vectors, contexts, frequency = factorize_walks(edges, nodes, chosen, weight=weight)
        largest = tuple(log_degrees(edges, nodes, weight, forward).max(dim=0).values.tolist())
        contexts = (contexts * nodes**0.5).half()
        return cls(node_names(data), vectors, contexts, frequency, largest, edge_checksum(data))

    def structural_features(self, data: Data) -> Tensor:
        """Log-degree and walk vectors of a graph [M, 1 + k], for nodes that have no features.

        If the known graph is directed, there is a log-degree for each direction, [M, 2 + k]. Degrees are sums of
        weights over their mean (`log_degrees`).

        Raises:
            InputError: if the graph has nothing in common with the known one
        """
        (edges, weight, forward), largest = _edges_of(data), torch.tensor(self.log_degree)
        degrees = log_degrees(edges, int(data.num_nodes), weight, forward if len(largest) == 2 else None)
        return torch.cat([degrees / largest, self.transform(data, needed=True)], dim=1)

    def transform(self, data: Data, needed: bool = False) -> Tensor:
        """Walk vectors of a graph [M, k]; zeros for nodes from which walks reach none that is known.

        Warns if there are such nodes, or if the graph has nothing in common with the known one: then all are zeros, or,
        if vectors are `needed`, `InputError` is raised.
        """
        names, (edges, weight, _) = node_names(data), _edges_of(data)
        if edge_checksum(data) == self.graph and names == self.names:
            return self.vectors
        rows = {name: row for row, name in enumerate(self.names)}
        known = torch.tensor([rows.get(name, -1) for name in names])
        known[known >= 0] = known[known >= 0].where(self.frequency[known[known >= 0]] > 0, -1)
        if not self._recognizes(edges, known, weight):
            if needed:
                hint = "features that both graphs have make them comparable"
                raise InputError("without features, only a graph with nodes of the earlier one can be embedded", hint)
            warn("no node of the graph is known by its name and its neighbors: it has no walk vectors", stacklevel=2)
            return torch.zeros(len(names), self.vectors.size(1))
        vectors = torch.zeros(len(names), self.vectors.size(1))
        vectors[known >= 0] = self.vectors[known[known >= 0]]
        new = (known < 0).nonzero().flatten()
        vectors[new] = self.fold_in(edges, new, known, weight)
        lost = int((vectors[new].norm(dim=1) == 0).sum())
        if lost:
            warn(f"walks from {lost:,} of {len(new):,} new nodes reach no known one: they have no walk vectors", 2)
        return vectors

    def fold_in(self, edges: Tensor, nodes: Tensor, known: Tensor, weight: Tensor | None = None) -> Tensor:
        """The vectors [n, k] of some nodes from their walks.

        Args:
            edges: of the graph, [2, E]
            nodes: whose vectors are computed, [n]
            known: row of each node of the graph here, -1 for new ones [M]
            weight: of the edges, [E]
        """
        window = WalkPlan().window
        walks = min(MAX_WALKS, max(MIN_WALKS, MAX_PAIRS // (window * max(1, len(nodes)))))
        degree = torch.bincount(edges[0], minlength=len(known))
        generator, contexts = np.random.default_rng(SEED), self.contexts.float().numpy()
        folded = torch.zeros(len(nodes), self.vectors.size(1))
        for places in (degree[nodes] > 0).nonzero().flatten().split(max(1, WALKS_PER_CHUNK // walks)):
            starts = nodes[places].numpy().repeat(walks)
            paths = walk(edges, len(known), window + 1, generator, starts, weight)
            folded[places] = torch.from_numpy(self._rows(paths, walks, known.numpy()) @ contexts)
        return normalize(folded, dim=1)

    def _rows(self, paths: NDArray[np.int32], walks: int, known: NDArray[np.int64]) -> csr_matrix:
        """Rows of M [n, N] for walks [window + 1, n · walks], of which `walks` in turn start from the same node."""
        window, shape = len(paths) - 1, (paths.shape[1] // walks, len(self.names))
        counts, row = csr_matrix(shape, dtype=np.float32), np.arange(paths.shape[1]) // walks
        for step in range(1, window + 1):
            column = known[paths[step]]
            kept = (column >= 0) & (paths[step] != paths[0])
            weight = np.full(int(kept.sum()), (window + 1 - step) / window, np.float32)
            counts += csr_matrix((weight, (row[kept], column[kept])), shape=shape)
        total = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1e-9)
        counts.data /= np.repeat(total, np.diff(counts.indptr)) * self.frequency.numpy()[counts.indices]
        counts.data = np.maximum(np.log(counts.data), 0)
        return counts

    def _recognizes(self, edges: Tensor, known: Tensor, weight: Tensor | None) -> bool:
        """Whether nodes with known names have known neighbors: folded in, they are nearer to themselves than to others.

        Names may agree by chance, above all where they are numbers.
        """
        shared = (known >= 0).nonzero().flatten()
        shared = shared[torch.randperm(len(shared), generator=torch.Generator().manual_seed(SEED))[:COMPARED]]
        if not len(shared):
            return False
        folded, own = self.fold_in(edges, shared, known, weight), self.vectors[known[shared]]
        cosine = float((folded * own).sum(dim=1).mean())
        chance = float((folded * self.vectors[self.frequency > 0].mean(dim=0)).sum(dim=1).mean())
        return cosine - chance > MIN_AGREEMENT * (1 - chance)


def node_names(data: Data) -> list[str]:
    """The names of the nodes: their numbers if they have none."""
    ids = data.get("ids")
    return [str(name) for name in (range(int(data.num_nodes)) if ids is None else ids)]


def _edges_of(data: Data) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Edges [2, E], their weights and those in their own direction [E] on the CPU; None for what a graph has not."""
    weight, forward = (data.get(name) for name in EDGE_ATTRIBUTES)
    return data.edge_index.cpu(), None if weight is None else weight.cpu(), None if forward is None else forward.cpu()
