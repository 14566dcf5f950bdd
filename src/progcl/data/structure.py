"""Structural features of nodes without features, computed from the edges."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.nn.functional import normalize

WALK_LENGTH, DIMENSIONS = 10, 128  # DeepWalk's usual window and embedding size
ITERATIONS, OVERSAMPLING = 3, 16  # of the randomized subspace iteration


def structural_features(edges: Tensor, nodes: int, seed: int = 0) -> Tensor:
    """Log-degree and a spectral embedding of random walks, [N, 1 + min(128, N)]."""
    log_degree = torch.bincount(edges[1], minlength=nodes).float().log1p().unsqueeze(1)
    return torch.cat([log_degree / log_degree.max(), spectral_vectors(edges, nodes, DIMENSIONS, seed)], dim=1)


def spectral_vectors(edges: Tensor, nodes: int, dimensions: int = DIMENSIONS, seed: int = 0) -> Tensor:
    """The leading eigenvectors of the mean of Â, Â², ..., Â¹⁰, scaled by their eigenvalues, [N, min(dimensions, N)].

    Much like the matrix that DeepWalk factorizes, without its logarithm (Qiu et al., "Network Embedding as Matrix
    Factorization", 2018). They are computed by randomized subspace iteration (Halko, Martinsson, Tropp, "Finding
    Structure with Randomness", 2011); rows are scaled to norm 1.
    """
    adjacency = _normalized_adjacency(edges, nodes)

    def mean_of_powers(x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for _ in range(WALK_LENGTH):
            x = adjacency @ x
            total += x
        return total / WALK_LENGTH

    basis = torch.randn(nodes, min(dimensions + OVERSAMPLING, nodes), generator=torch.Generator().manual_seed(seed))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same bits for any number of threads: a resumed run needs them
    try:
        for _ in range(ITERATIONS):
            basis = torch.linalg.qr(mean_of_powers(basis)).Q
        eigenvalues, rotation = torch.linalg.eigh(basis.T @ mean_of_powers(basis))
        return normalize((basis @ rotation * eigenvalues)[:, -dimensions:], dim=1)
    finally:
        torch.set_num_threads(threads)


def _normalized_adjacency(edges: Tensor, nodes: int) -> Tensor:
    """Â = D̂^-½ (A+I) D̂^-½ [N, N] as a CSR matrix."""
    loops = torch.arange(nodes)
    target, source = torch.cat([edges[1], loops]), torch.cat([edges[0], loops])
    order = target.argsort(stable=True)
    target, source = target[order], source[order]
    degree = torch.bincount(target, minlength=nodes)
    scale = degree.float().rsqrt()
    pointer = torch.cat([degree.new_zeros(1), degree.cumsum(0)]).int()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            pointer, source.int(), scale[target] * scale[source], (nodes, nodes), check_invariants=False
        )
