"""Structural vectors of nodes, computed from the edges alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import lu, qr, svd
from scipy.sparse import csr_matrix
from sklearn.utils.extmath import svd_flip
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import normalize

from progcl.data.edges import loop_weights, relative_weights, sum_weights
from progcl.data.rows import build_csr

WALK_LENGTH, DIMENSIONS = 10, 128  # DeepWalk's usual window and embedding size
SAMPLE, MAX_TRIALS = 64, 20_000  # nodes from which walks are tried, and pairs that are drawn for each
ROWS_PER_PART = 2**17  # of the matrix of walks: parts of millions of entries, whose memory is given back as they grow
ITERATIONS = 3  # of subspace iterations
SPECTRAL_OVERSAMPLING, WALK_OVERSAMPLING = 16, 10  # columns beyond those that are kept
MAX_PAIRS = 2**27  # of nodes on walks
WIDE, MAX_WIDE_NODES = 256, 200_000  # structural features where there are no others; DIMENSIONS on larger graphs


class WalkPlan(NamedTuple):
    """Walks from every node, the nodes of a walk, and how far apart two of them are counted as a pair."""

    walks: int = 10
    length: int = 40
    window: int = 10

    @classmethod
    def for_size(cls, nodes: int) -> WalkPlan:
        """Fewer walks, then shorter ones, where there would be more than `MAX_PAIRS` pairs."""
        full = cls()
        walks = min(full.walks, MAX_PAIRS // (full.length * full.window * max(nodes, 1)))
        return full._replace(walks=walks) if walks else cls(1, 20, 5)


class Factors(NamedTuple):
    """The leading singular triplets of DeepWalk's matrix M = UΣVᵀ.

    Attributes:
        vectors: UΣ with unit rows, [N, k]
        contexts: V, [N, k]
        frequency: share of all pairs that a node is the second of, [N]
    """

    vectors: Tensor
    contexts: Tensor
    frequency: Tensor


class PairMatrix:
    """A symmetric matrix [N, N] of pairs of nodes, of which the half above the diagonal is stored.

    Rows are stored in parts, so that adding to them takes no second copy of the whole.
    """

    def __init__(self, nodes: int) -> None:
        starts = range(0, nodes, ROWS_PER_PART)
        self.rows = [slice(start, min(start + ROWS_PER_PART, nodes)) for start in starts]
        self.upper = [csr_matrix((row.stop - row.start, nodes - row.start), dtype=np.float32) for row in self.rows]

    def parts(self) -> Iterator[tuple[slice, csr_matrix]]:
        """Rows, and their entries above the diagonal; columns are counted from the first of the rows."""
        return zip(self.rows, self.upper, strict=True)

    def add(self, upper: csr_matrix) -> None:
        """Add a matrix [N, N] with entries above the diagonal alone."""
        for number, row in enumerate(self.rows):
            self.upper[number] += upper[row, row.start :]

    def __matmul__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        product = np.zeros_like(x)
        for row, part in self.parts():
            product[row] += part @ x[row.start :]
            product[row.start :] += part.T @ x[row]
        return product


def log_degrees(edges: Tensor, nodes: int, weight: Tensor | None = None, forward: Tensor | None = None) -> Tensor:
    """log(1 + degree) of each node, [N, 1], or [N, 2] for each direction of a directed graph.

    Args:
        edges: in both directions, [2, E]
        nodes: N
        weight: of the edges [E]; a degree is then the sum of a node's weights, over the mean weight
        forward: of a directed graph, `Edges.forward`
    """
    ends = [(edges[1], weight)] if forward is None else [(edges[0], forward), (edges[1], forward)]
    return torch.stack([_degree(end, nodes, each).log1p() for end, each in ends], dim=1)


def _degree(end: Tensor, nodes: int, weight: Tensor | None) -> Tensor:
    """Number of edges at each node [N], or the sum of their weights over the mean of those above 0."""
    if weight is None:
        return torch.bincount(end, minlength=nodes).float()
    strength = torch.bincount(end, weight.double(), minlength=nodes)
    return (strength / weight[weight > 0].double().mean()).float()


def walk_vectors(
    edges: Tensor, nodes: int, dimensions: int = DIMENSIONS, seed: int = 0, weight: Tensor | None = None
) -> Tensor:
    """UΣ of the leading singular triplets of DeepWalk's matrix M = UΣVᵀ, with unit rows, [N, min(dimensions, N)]."""
    return factorize_walks(edges, nodes, dimensions, seed, weight).vectors


def factorize_walks(
    edges: Tensor, nodes: int, dimensions: int = DIMENSIONS, seed: int = 0, weight: Tensor | None = None
) -> Factors:
    """Factorize DeepWalk's matrix; k is min(dimensions, N).

    M_ij = max(0, log(c_ij Σc / (c_i c_j))), where c_ij counts how often i and j are near each other on random walks,
    and c_i is its row sum. Skip-gram with one negative factorizes this matrix without max, as Levy, Goldberg: Neural
    Word Embedding as Implicit Matrix Factorization (2014) show; that counts of few sampled walks suffice is from Qiu,
    Dong, Ma, Li, Wang, Wang, Tang: NetSMF: Large-Scale Network Embedding as Sparse Matrix Factorization (2019). A walk
    goes along an edge with a probability in proportion to its `weight` [E].
    """
    matrix = _count_pairs(edges, nodes, WalkPlan.for_size(nodes), seed, weight)
    rows = matrix @ np.ones(nodes, np.float32)
    inverse = rows.sum() / np.maximum(rows, 1e-9)
    for row, part in matrix.parts():
        part.data *= np.repeat(inverse[row], np.diff(part.indptr))
        part.data /= rows[row.start :][part.indices]
        np.maximum(np.log(part.data, out=part.data), 0, out=part.data)
        part.eliminate_zeros()
    with threadpool_limits(1, user_api="blas"):  # the same bits for any number of threads: a resumed run needs them
        left, values, right = _truncated_svd(matrix, nodes, min(dimensions, nodes), seed)
    vectors = normalize(torch.from_numpy(left * values).float(), dim=1)
    frequency = torch.from_numpy(rows / max(float(rows.sum()), 1e-9)).float()
    return Factors(vectors, torch.from_numpy(right.T.copy()).float(), frequency)


def _truncated_svd(
    matrix: PairMatrix, nodes: int, rank: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """U [N, k], Σ [k] and Vᵀ [k, N] of a symmetric matrix, as of scikit-learn's `randomized_svd`, which takes arrays.

    Halko, Martinsson, Tropp: Finding Structure with Randomness (2011).
    """
    size = min(rank + WALK_OVERSAMPLING, nodes)
    basis = np.random.RandomState(seed).normal(size=(nodes, size)).astype(np.float32)
    for _ in range(2 * ITERATIONS):  # with the matrix and its transpose in turn
        basis = lu(matrix @ basis, permute_l=True, check_finite=False)[0]
    basis = qr(matrix @ basis, mode="economic", check_finite=False)[0]
    left, values, right = svd((matrix @ basis).T, full_matrices=False, check_finite=False)
    left, right = svd_flip(basis @ left, right)
    return left[:, :rank], values[:rank], right[:rank]


def _count_pairs(edges: Tensor, nodes: int, plan: WalkPlan, seed: int, edge_weight: Tensor | None = None) -> PairMatrix:
    """How often two nodes are on a walk up to `window` steps apart, t steps counting (window + 1 - t) / window."""
    counts = PairMatrix(nodes)
    generator = np.random.default_rng(seed)
    for _ in range(plan.walks):
        paths = walk(edges, nodes, plan.length, generator, weight=edge_weight)
        for step in range(1, plan.window + 1):
            first, second = paths[:-step].ravel(), paths[step:].ravel()
            differ = first != second
            low, high = np.minimum(first, second)[differ], np.maximum(first, second)[differ]
            weight = np.full(len(low), (plan.window + 1 - step) / plan.window, np.float32)
            counts.add(csr_matrix((weight, (low, high)), shape=(nodes, nodes)))
    return counts


def count_pairs(plan: WalkPlan) -> int:
    """Pairs of nodes that a node's walks have."""
    return plan.walks * sum(plan.length - step for step in range(1, plan.window + 1))


def count_distinct_pairs(edges: Tensor, nodes: int, plan: WalkPlan, seed: int = 0) -> float:
    """About how many pairs of nodes, in both orders, are near each other on walks: by walks from a few nodes.

    A node is on walks in proportion to its degree d, so that M = 2 d / mean(d) times the pairs of a node name it; the
    distinct ones among its M partners are counted on as many walks of 1 to `window` steps from it.
    """
    generator = np.random.default_rng(seed)
    degree = np.bincount(edges[0].numpy(), minlength=nodes)
    first = np.concatenate([[0], degree.cumsum()])
    neighbors = edges[1].numpy()  # of a prepared graph, sorted by the source
    chosen = generator.choice(degree.nonzero()[0], SAMPLE)
    total = 0.0
    for node in chosen:
        partners = 2 * count_pairs(plan) * degree[node] / degree.mean()
        drawn = int(min(MAX_TRIALS, max(1, partners)))
        here, ends = np.full(drawn, node), []
        for step in range(plan.window):
            here = neighbors[first[here] + (generator.random(len(here)) * degree[here]).astype(np.int64)]
            ended = drawn * (step + 1) // plan.window - drawn * step // plan.window
            ends.append(here[:ended])
            here = here[ended:]
        total += len(np.unique(np.concatenate(ends))) * max(1.0, partners / drawn)
    return float(total / SAMPLE * (degree > 0).sum())


def walk(
    edges: Tensor,
    nodes: int,
    length: int,
    generator: np.random.Generator,
    starts: NDArray[np.int64] | None = None,
    weight: Tensor | None = None,
) -> NDArray[np.int32]:
    """A walk from each start, which has neighbors, or else from every node that has some: node numbers [length, n]."""
    order = edges[0].argsort(stable=True)
    neighbors = edges[1][order].int().numpy()
    degree = torch.bincount(edges[0], minlength=nodes).numpy()
    first = np.concatenate([[0], degree.cumsum()[:-1]])
    ends = None if weight is None else relative_weights(edges[0], weight, nodes)[order].double().cumsum(0).numpy()
    starts = degree.nonzero()[0] if starts is None else starts
    paths = np.empty((length, len(starts)), np.int32)
    paths[0] = starts
    for step in range(1, length):
        here = paths[step - 1]
        place = generator.random(len(here)) * degree[here]
        if ends is None:
            paths[step] = neighbors[first[here] + place.astype(np.int64)]
        else:
            edge = np.searchsorted(ends, first[here] + place, side="right")
            paths[step] = neighbors[np.clip(edge, first[here], first[here] + degree[here] - 1)]
    return paths


def spectral_vectors(
    edges: Tensor, nodes: int, dimensions: int = DIMENSIONS, seed: int = 0, weight: Tensor | None = None
) -> Tensor:
    """The leading eigenvectors of the mean of Â, Â², ..., Â¹⁰, scaled by their eigenvalues, [N, min(dimensions, N)].

    Much like the matrix that DeepWalk factorizes, without its logarithm (Qiu et al., "Network Embedding as Matrix
    Factorization", 2018). They are computed by randomized subspace iteration (Halko, Martinsson, Tropp, "Finding
    Structure with Randomness", 2011); rows are scaled to norm 1.
    """
    adjacency = _normalized_adjacency(edges, nodes, weight)

    def mean_of_powers(x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for _ in range(WALK_LENGTH):
            x = adjacency @ x
            total += x
        return total / WALK_LENGTH

    basis = torch.randn(
        nodes, min(dimensions + SPECTRAL_OVERSAMPLING, nodes), generator=torch.Generator().manual_seed(seed)
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same bits for any number of threads: a resumed run needs them
    try:
        for _ in range(ITERATIONS):
            basis = torch.linalg.qr(mean_of_powers(basis)).Q
        eigenvalues, rotation = torch.linalg.eigh(basis.T @ mean_of_powers(basis))
        return normalize((basis @ rotation * eigenvalues)[:, -dimensions:], dim=1)
    finally:
        torch.set_num_threads(threads)


def _normalized_adjacency(edges: Tensor, nodes: int, weight: Tensor | None = None) -> Tensor:
    """Â = D̂^-½ (A+I) D̂^-½ [N, N] as a CSR matrix; with weights, `loop_weights` take the place of I."""
    loops = torch.arange(nodes)
    target, source = torch.cat([edges[1], loops]), torch.cat([edges[0], loops])
    order = target.argsort(stable=True)
    target, source = target[order], source[order]
    degree = torch.bincount(target, minlength=nodes)
    if weight is None:
        scale = degree.float().rsqrt()
        values = scale[target] * scale[source]
    else:
        entries = torch.cat([weight, loop_weights(edges[1], weight, nodes)])[order]
        scale = sum_weights(target, entries, nodes).rsqrt()
        values = entries * (scale[target] * scale[source])
    return build_csr(degree, source, values, nodes)
