"""Features of nodes that have none, made of the edges."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.nn.functional import normalize

WALK, WIDTH = 10, 128  # steps of a random walk, and numbers that say where it ends: DeepWalk's usual ones
ROUNDS, SPARE = 3, 16  # of the search for these numbers, and how many more are looked for


def structural_features(edges: Tensor, nodes: int, seed: int = 0) -> Tensor:
    """Features of nodes that have none: the logarithm of the degree, and where random walks of 1 to 10 steps end.

    The latter are the strongest directions of the mean of Â, Â², ..., Â¹⁰, as many as DeepWalk usually learns, found by
    subspace iteration from a random start; rows have length 1, so nodes are alike whose walks end at the same places.
    """
    adjacency = _normalized_adjacency(edges, nodes)

    def walked(x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for _ in range(WALK):
            x = adjacency @ x
            total += x
        return total / WALK

    found = torch.randn(nodes, min(WIDTH + SPARE, nodes), generator=torch.Generator().manual_seed(seed))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the same numbers however many threads there are: a resumed run needs them
    try:
        for _ in range(ROUNDS):
            found = torch.linalg.qr(walked(found)).Q
        strength, turned = torch.linalg.eigh(found.T @ walked(found))
        ends = normalize((found @ turned * strength)[:, -WIDTH:], dim=1)
    finally:
        torch.set_num_threads(threads)
    height = torch.bincount(edges[1], minlength=nodes).float().log1p().unsqueeze(1)
    return torch.cat([height / height.max(), ends], dim=1)


def _normalized_adjacency(edges: Tensor, nodes: int) -> Tensor:
    """D̂^-½ (A+I) D̂^-½ as a CSR matrix."""
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
