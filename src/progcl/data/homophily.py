"""Whether linked nodes are alike: by their labels, else by their features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.data.rows import take_rows

PAIRS = 4096  # links, and as many random pairs, whose features are compared
MIN_LABELED_EDGES = 100
LOW_HOMOPHILY = 0.1  # adjusted; 0 is what a random graph has, 1 if all links stay inside a class
TO_TRY = "compare with --output.blocks untrained (several hops side by side) and own (no hops)"


def adjusted_homophily(edges: Tensor, labels: Tensor, weight: Tensor | None = None) -> float | None:
    """(h − Σ_k p_k²) / (1 − Σ_k p_k²), where h is the share of links inside a class and p_k class k's share of degrees.

    Platonov et al., "Characterizing Graph Datasets for Node Classification: Homophily-Heterophily Dichotomy and
    Beyond" (2023). 0 is what links at random give, whatever the sizes of the classes; 1 is perfect.

    Args:
        edges: [2, E], both directions
        labels: [N], negative where unknown; links of such nodes are left aside
        weight: of the edges [E]; None counts them alike

    Returns:
        None with one class, or with too few links between labeled nodes to say.
    """
    ends = labels[edges]
    known = (ends >= 0).all(dim=0)
    ends = ends[:, known]
    if ends.size(1) < 2 * MIN_LABELED_EDGES:
        return None
    counted = torch.ones(ends.size(1)) if weight is None else weight[known]
    shares = torch.bincount(ends.flatten(), counted.double().repeat(2)) / (2 * counted.double().sum())
    by_chance = float((shares**2).sum())
    inside = float((ends[0] == ends[1]).double() @ counted.double() / counted.double().sum())
    return (inside - by_chance) / (1 - by_chance) if by_chance < 1 else None


def feature_similarity(
    edges: Tensor, x: Tensor, pairs: int = PAIRS, seed: int = 0, weight: Tensor | None = None
) -> tuple[float, float, float]:
    """Mean cosine of centered features along links, of random pairs, and the standard error of the difference.

    Args:
        edges: [2, E]
        x: features [N, F]
        pairs: links, and random pairs, that are drawn
        seed: of the draw
        weight: of the edges [E], by which links are drawn; None draws them alike
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(edges.size(1), (pairs,), generator=generator)
    if weight is not None:
        ends = weight.double().cumsum(0)
        place = torch.rand(pairs, generator=generator, dtype=torch.double) * ends[-1]
        drawn = torch.searchsorted(ends, place, right=True).clamp_max_(edges.size(1) - 1)
    others = torch.randint(len(x), (2, pairs), generator=generator)
    mean = take_rows(x, torch.randint(len(x), (pairs,), generator=generator)).mean(dim=0)
    links, random = (_cosines(x, ends, mean) for ends in (edges[:, drawn], others))
    error = float(torch.sqrt(links.var() / pairs + random.var() / pairs))
    return float(links.mean()), float(random.mean()), error


def describe_homophily(data: Data) -> list[str]:
    """A remark if linked nodes are hardly more alike than any two, and what to try then."""
    labels, weight = data.get("y"), data.get("edge_weight")
    homophily = None if labels is None else adjusted_homophily(data.edge_index, labels, weight)
    if homophily is not None:
        if homophily >= LOW_HOMOPHILY:
            return []
        found = f"links hardly tell classes (adjusted homophily {homophily:.2f}; 0 is chance, 1 is perfect)"
        return [f"{found}: {TO_TRY}"]
    if data.get("structural") or data.edge_index.size(1) < 2 * MIN_LABELED_EDGES:
        return []
    linked, random, error = feature_similarity(data.edge_index, data.x, weight=weight)
    if linked > random + 3 * error:
        return []
    found = f"linked nodes have no more similar features than others (mean cosine {linked:.2f}, any two {random:.2f})"
    return [f"{found}: if links do not mean likeness, {TO_TRY}"]


def _cosines(x: Tensor, ends: Tensor, mean: Tensor) -> Tensor:
    """Cosines of centered rows [pairs]; in chunks, as features may be wide."""
    chunks = [tuple(normalize(take_rows(x, end) - mean, dim=1) for end in part) for part in ends.split(512, dim=1)]
    return torch.cat([(first * second).sum(dim=1) for first, second in chunks])
