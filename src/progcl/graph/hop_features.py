"""Features propagated by several hops, reduced before by an SVD and after by a PCA: good without any training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack
from sklearn.decomposition import PCA
from sklearn.utils.extmath import randomized_svd
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.config.output import HopsConfig
from progcl.data.edges import list_arcs, sum_weights
from progcl.data.rows import is_sparse, split_rows, unit_rows
from progcl.graph.sparse import SparseMatrix, propagate
from progcl.graph.views import Graph, View

ROWS_PER_CHUNK = 2**12
MAX_GRAM_COLUMNS = 2048  # up to these, XᵀX is computed, which reads every row once
MAX_BYTES = 2**30  # of the hop features, which bounds their rank
MAX_RANK, MIN_RANK = 512, 64


@dataclass(frozen=True)
class HopFeatures:
    """[F, ÂF, Â²F, ...] side by side with unit rows in each block, reduced by a PCA; F is the SVD of the features.

    A directed graph has two more blocks for each power, along its edges and against them (`stack_hops`).

    Attributes:
        hops: the powers of Â
        directions: the projection of the features, [features, rank]
        pca: the reduction of all blocks together; None for none
        directed: whether there are further blocks along the edges and against them
    """

    hops: tuple[int, ...]
    directions: Tensor
    pca: PCA | None = None
    directed: bool = False

    @classmethod
    def fit(cls, data: Data, config: HopsConfig) -> HopFeatures:
        """Fit SVD and PCA to a graph."""
        directed = is_directed(data)
        blocks = len(config.powers) + 2 * directed * sum(power > 0 for power in config.powers)
        rank = config.rank or choose_rank(int(data.num_nodes), blocks)
        features = cls(tuple(config.powers), svd_directions(data.x, rank), directed=directed)
        if config.dim is None or features.directions.size(1) * blocks <= config.dim:
            return features
        return replace(features, pca=fit_pca(features.transform(data), config.dim))

    def transform(self, data: Data) -> Tensor:
        """The features [N, d] of a graph."""
        rows = project(data.x, self.directions).to(data.edge_index.device)
        if self.pca is None:
            return stack_hops(rows, data, self.hops, self.directed)
        mean, components = (torch.from_numpy(part).float() for part in (self.pca.mean_, self.pca.components_))
        reduced = (-mean @ components.T).to(rows.device).expand(len(rows), -1).contiguous()
        weights = components.T.to(rows.device).split(rows.size(1))
        for weight, block in zip(weights, iterate_hops(rows, data, self.hops, self.directed), strict=True):
            reduced.addmm_(block, weight)  # so that the blocks are never held side by side
            del block
        return reduced

    def gather(self, data: Data, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """The features of some nodes [n, d] before they are reduced, and the mean of those of all [d]."""
        rows = project(data.x, self.directions).to(data.edge_index.device)
        blocks = ((block[nodes], block.mean(dim=0)) for block in iterate_hops(rows, data, self.hops, self.directed))
        of_nodes, means = zip(*blocks, strict=True)
        return torch.cat(of_nodes, dim=1), torch.cat(means)


def fit_pca(rows: Tensor, dimensions: int) -> PCA:
    """The leading principal components of rows [N, d], from their covariance, which reads them once."""
    return PCA(min(dimensions, *rows.shape), svd_solver="covariance_eigh").fit(rows.cpu().numpy())


def apply_pca(pca: PCA, rows: Tensor) -> Tensor:
    """Rows [N, d] as principal components [N, k]."""
    return torch.from_numpy(pca.transform(rows.cpu().numpy())).float().to(rows.device)


def make_pca(mean: Tensor, components: Tensor) -> PCA:
    """A fitted PCA from its mean [d] and its components [k, d]."""
    pca = PCA(len(components), svd_solver="covariance_eigh")
    pca.mean_, pca.components_ = mean.numpy(), components.numpy()
    pca.n_components_, pca.n_features_in_ = components.shape
    return pca


def choose_rank(nodes: int, hops: int) -> int:
    """As many singular vectors as keep the features of all hops below a gigabyte, from 64 to 512."""
    return max(MIN_RANK, min(MAX_RANK, MAX_BYTES // (4 * nodes * hops)))


def orient(directions: Tensor) -> Tensor:
    """Fix the signs of the columns of an SVD, which are arbitrary: the largest entry is positive."""
    largest: Tensor = directions.gather(0, directions.abs().argmax(dim=0, keepdim=True))
    return directions * largest.sign()


def is_directed(data: Data) -> bool:
    """Whether a prepared graph has edges without their reverse."""
    return data.get("edge_forward") is not None


def stack_hops(x: Tensor, data: Data, hops: Sequence[int], directed: bool = False) -> Tensor:
    """[Âʰx for h in hops] with unit rows in each block, [N, blocks · columns].

    If `directed`, there are two more blocks for h > 0 beside Âʰx: (D_out⁻¹ A)ʰ x, the mean over nodes that h edges lead
    to, and (D_in⁻¹ Aᵀ)ʰ x over those that h edges come from.
    """
    width, chosen = x.size(1), set(hops)
    stacked = x.new_empty(len(x), ((0 in chosen) + (1 + 2 * directed) * len(chosen - {0})) * width)
    for start, block in enumerate(iterate_hops(x, data, hops, directed)):
        stacked[:, start * width : (start + 1) * width] = block
        del block  # before the next one is computed
    return stacked


def iterate_hops(x: Tensor, data: Data, hops: Sequence[int], directed: bool = False) -> Iterator[Tensor]:
    """The blocks [N, columns] of `stack_hops`, one after the other."""
    matrices = [normalized_adjacency(data, len(x))] if max(hops) else []
    matrices += directed_means(data, len(x)) if directed and max(hops) else []
    chosen = set(hops)
    if 0 in chosen:
        yield normalize(x, dim=1)
    columns = [x] * len(matrices)
    for hop in range(1, max(hops) + 1):
        columns = [propagate(each, matrix) for each, matrix in zip(columns, matrices, strict=True)]
        yield from (normalize(each, dim=1) for each in columns if hop in chosen)


def normalized_adjacency(data: Data, nodes: int) -> SparseMatrix:
    """Â = D̂^-½ (A+I) D̂^-½ [N, N] of a graph, whatever its features."""
    return View(Graph(_without_features(nodes, data.edge_index, data.get("edge_weight")))).symmetric


def directed_means(data: Data, nodes: int) -> tuple[SparseMatrix, SparseMatrix]:
    """D_out⁻¹ A and D_in⁻¹ Aᵀ [N, N] of a directed graph: means over successors and predecessors, by weight.

    There are no self-loops; a node without successors (or predecessors) has a row of zeros.
    """
    (source, target), weight = list_arcs(data)
    graph = Graph(_without_features(nodes, data.edge_index[:, :0]))

    def mean(row: Tensor, column: Tensor) -> SparseMatrix:
        return View(graph.with_edges(torch.stack([column, row]), weight / sum_weights(row, weight, nodes)[row])).mean

    return mean(source, target), mean(target, source)


def _without_features(nodes: int, edge_index: Tensor, edge_weight: Tensor | None = None) -> Data:
    weight = {} if edge_weight is None else {"edge_weight": edge_weight}
    return Data(x=torch.empty(nodes, 0, device=edge_index.device), edge_index=edge_index, num_nodes=nodes, **weight)


def svd_directions(x: Tensor, rank: int) -> Tensor:
    """The leading right singular vectors [features, rank] of X with unit rows; the identity if features ≤ rank.

    Computed on the CPU, in double precision where XᵀX is formed: the same on every device.
    """
    columns = x.size(1)
    if columns <= rank:
        return torch.eye(columns, device=x.device)
    if columns <= MAX_GRAM_COLUMNS:
        chunks = (normalize(rows.cpu(), dim=1).double() for rows in split_rows(x, ROWS_PER_CHUNK))
        gram = sum(chunk.T @ chunk for chunk in chunks)
        assert isinstance(gram, Tensor)
        directions = torch.linalg.eigh(gram).eigenvectors[:, -rank:].flip(1).float()
    else:
        unit = unit_rows(x) if is_sparse(x) else _sparse_unit_rows(x)
        directions = torch.from_numpy(np.ascontiguousarray(randomized_svd(unit, rank, random_state=0)[2].T)).float()
    return orient(directions).to(x.device)


def _sparse_unit_rows(x: Tensor) -> csr_matrix:
    """Dense rows with unit length, as a sparse matrix."""
    return vstack([csr_matrix(normalize(rows.cpu(), dim=1).numpy()) for rows in x.split(ROWS_PER_CHUNK)])


def project(x: Tensor, directions: Tensor) -> Tensor:
    """Features with unit rows, projected on the directions, [N, rank]."""
    if is_sparse(x):
        return torch.from_numpy(unit_rows(x) @ directions.cpu().numpy()).to(x.device)
    directions = directions.to(x.device)
    return torch.cat([normalize(rows, dim=1) @ directions for rows in x.split(ROWS_PER_CHUNK)])
