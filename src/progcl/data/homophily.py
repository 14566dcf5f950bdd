"""Whether linked nodes are alike: by their labels, else by their features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

PAIRS = 4096  # links, and as many random pairs, whose features are compared
MIN_LABELED_EDGES = 100
LOW_HOMOPHILY = 0.1  # adjusted; 0 is what a random graph has, 1 if all links stay inside a class
TO_TRY = "compare with --output.blocks untrained (several hops side by side) and own (no hops)"


def adjusted_homophily(edges: Tensor, labels: Tensor) -> float | None:
    """(h − Σ_k p_k²) / (1 − Σ_k p_k²), where h is the share of links inside a class and p_k class k's share of degrees.

    Platonov et al., "Characterizing Graph Datasets for Node Classification: Homophily-Heterophily Dichotomy and
    Beyond" (2023). 0 is what links at random give, whatever the sizes of the classes; 1 is perfect.

    Args:
        edges: [2, E], both directions
        labels: [N], negative where unknown; links of such nodes are left aside

    Returns:
        None with one class, or with too few links between labeled nodes to say.
    """
    ends = labels[edges]
    ends = ends[:, (ends >= 0).all(dim=0)]
    if ends.size(1) < 2 * MIN_LABELED_EDGES:
        return None
    shares = torch.bincount(ends.flatten()).double() / ends.numel()
    by_chance = float((shares**2).sum())
    inside = float((ends[0] == ends[1]).double().mean())
    return (inside - by_chance) / (1 - by_chance) if by_chance < 1 else None


def feature_similarity(edges: Tensor, x: Tensor, pairs: int = PAIRS, seed: int = 0) -> tuple[float, float, float]:
    """Mean cosine of centered features along links, of random pairs, and the standard error of the difference.

    Args:
        edges: [2, E]
        x: features [N, F]
        pairs: links, and random pairs, that are drawn
        seed: of the draw
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(edges.size(1), (pairs,), generator=generator)
    others = torch.randint(len(x), (2, pairs), generator=generator)
    mean = x[torch.randint(len(x), (pairs,), generator=generator)].mean(dim=0)
    links, random = (_cosines(x, ends, mean) for ends in (edges[:, drawn], others))
    error = float(torch.sqrt(links.var() / pairs + random.var() / pairs))
    return float(links.mean()), float(random.mean()), error


def describe_homophily(data: Data) -> list[str]:
    """A remark if linked nodes are hardly more alike than any two, and what to try then."""
    if data.get("y") is not None and (homophily := adjusted_homophily(data.edge_index, data.y)) is not None:
        if homophily >= LOW_HOMOPHILY:
            return []
        found = f"links hardly tell classes (adjusted homophily {homophily:.2f}; 0 is chance, 1 is perfect)"
        return [f"{found}: {TO_TRY}"]
    if data.get("structural") or data.edge_index.size(1) < 2 * MIN_LABELED_EDGES:
        return []
    linked, random, error = feature_similarity(data.edge_index, data.x)
    if linked > random + 3 * error:
        return []
    found = f"linked nodes have no more similar features than others (mean cosine {linked:.2f}, any two {random:.2f})"
    return [f"{found}: if links do not mean likeness, {TO_TRY}"]


def _cosines(x: Tensor, ends: Tensor, mean: Tensor) -> Tensor:
    """Cosines of centered rows [pairs]; in chunks, as features may be wide."""
    chunks = [tuple(normalize(x[end] - mean, dim=1) for end in part) for part in ends.split(512, dim=1)]
    return torch.cat([(first * second).sum(dim=1) for first, second in chunks])
