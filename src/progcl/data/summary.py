"""What a graph is like: size, degrees, components, and what is odd about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components
from torch import Tensor
from torch_geometric.data import Data

from progcl.data.homophily import adjusted_homophily, feature_similarity
from progcl.data.rows import column_ranges, values_of

HUB = 0.1  # share of all nodes that a neighbor of so many is remarked on
SPARSE = 0.1  # share of numbers that are not 0


@dataclass(frozen=True)
class Summary:
    """A graph in numbers.

    Attributes:
        nodes, edges: edges are counted once, without self-loops and duplicates
        self_loops, duplicates: which the given edges had beside these; an edge in both directions is no duplicate
        is_directed: whether edges were given in one direction alone
        degree: smallest, median, mean and largest
        isolated: nodes without edges
        components: connected components of two nodes or more
        largest: share of the nodes in the largest component
        is_bipartite: whether the nodes have two sides, and all edges lead from one to the other
        features: columns; 0 without features
        nonzero: share of the features that are not 0
        constant: features that are the same for all nodes
        similarity: mean cosine of features along edges, and of random pairs; None without features
        classes: number of classes; 0 without labels
        labeled: nodes with a label
        homophily: adjusted (0 is chance, 1 perfect); None without labels, or with too few
    """

    nodes: int
    edges: int
    self_loops: int
    duplicates: int
    is_directed: bool
    degree: dict[str, float]
    isolated: int
    components: int
    largest: float
    is_bipartite: bool
    features: int
    nonzero: float
    constant: int
    similarity: tuple[float, float] | None
    classes: int
    labeled: int
    homophily: float | None


def summarize(data: Data, given: Tensor | None = None) -> Summary:
    """Describe a prepared graph; `given` are its edges [2, E] as they were before `prepare`."""
    nodes, edges = int(data.num_nodes), data.edge_index
    degree = torch.bincount(edges[0], minlength=nodes)
    adjacency = csr_matrix((np.ones(edges.size(1), np.int8), edges.numpy()), (nodes, nodes))
    _, component = connected_components(adjacency, directed=False)
    sizes = np.bincount(component)
    has_features, labels = not data.get("structural"), data.get("y")
    known = labels[labels >= 0] if labels is not None else torch.empty(0, dtype=torch.long)
    return Summary(
        nodes=nodes,
        edges=edges.size(1) // 2,
        **_count_given(edges if given is None else given, nodes),
        degree=_describe_degrees(degree),
        isolated=int((degree == 0).sum()),
        components=int((sizes > 1).sum()),
        largest=float(sizes.max()) / nodes,
        is_bipartite=is_bipartite(adjacency, component),
        features=data.x.size(1) if has_features else 0,
        nonzero=float(values_of(data.x).count_nonzero()) / (nodes * data.x.size(1)) if has_features else 0.0,
        constant=int(torch.eq(*column_ranges(data.x)).sum()) if has_features else 0,
        similarity=feature_similarity(edges, data.x)[:2] if has_features and edges.numel() else None,
        classes=len(known.unique()),
        labeled=len(known),
        homophily=adjusted_homophily(edges, labels) if labels is not None else None,
    )


def is_bipartite(adjacency: csr_matrix, component: Any) -> bool:
    """Whether the nodes of every component can be colored with two colors, so that no edge joins two of a color."""
    starts = np.unique(component, return_index=True)[1]
    hub = adjacency.shape[0]  # a node of its own, so that one search reaches all components
    joined = csr_matrix(
        (
            np.ones(adjacency.nnz + len(starts), np.int8),
            (np.append(_rows(adjacency), np.full(len(starts), hub)), np.append(adjacency.indices, starts)),
        ),
        (hub + 1, hub + 1),
    )
    order, parent = breadth_first_order(joined, hub)
    depth = np.zeros(hub + 1, np.int64)
    for node in order[1:].tolist():
        depth[node] = depth[parent[node]] + 1
    side = depth[:hub] % 2
    return not bool((side[_rows(adjacency)] == side[adjacency.indices]).any())


def _rows(adjacency: csr_matrix) -> Any:
    return np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))


def _count_given(edges: Tensor, nodes: int) -> dict[str, Any]:
    """Self-loops, duplicates, and whether an edge lacks its other direction."""
    proper = edges[:, edges[0] != edges[1]]
    keys = torch.unique(proper[0] * nodes + proper[1])
    reversed_keys = torch.unique(proper[1] * nodes + proper[0])
    return {
        "self_loops": edges.size(1) - proper.size(1),
        "duplicates": proper.size(1) - len(keys),
        "is_directed": not torch.equal(keys, reversed_keys),
    }


def _describe_degrees(degree: Tensor) -> dict[str, float]:
    values = degree.numpy()
    return {name: float(getattr(np, name)(values)) for name in ("min", "median", "mean", "max")}


def describe(summary: Summary) -> list[tuple[str, str]]:
    """Rows of a table: what, and how much."""
    degree, names = summary.degree, ("min", "median", "mean", "max")
    rows = [
        ("nodes", f"{summary.nodes:,}"),
        ("edges", f"{summary.edges:,}" + (", given in one direction" if summary.is_directed else "")),
        ("left out", f"{summary.self_loops:,} self-loops, {summary.duplicates:,} duplicate edges"),
        ("degree", ", ".join(f"{name} {degree[name]:,.4g}" for name in names)),
        ("isolated nodes", f"{summary.isolated:,}"),
        ("components", f"{summary.components:,}, the largest has {summary.largest:.1%} of the nodes"),
        ("bipartite", "yes: edges lead from one kind of node to another" if summary.is_bipartite else "no"),
    ]
    if summary.features:
        sparse = f", {summary.nonzero:.1%} of them not 0" if summary.nonzero < SPARSE else ""
        constant = f", {summary.constant:,} the same for all nodes" if summary.constant else ""
        rows.append(("features", f"{summary.features:,}{sparse}{constant}"))
    else:
        rows.append(("features", "none: computed from the edges"))
    if summary.similarity:
        linked, others = summary.similarity
        rows.append(("feature similarity", f"{linked:.2f} along edges, {others:.2f} of any two nodes (mean cosine)"))
    if summary.classes:
        unknown = f"; {summary.nodes - summary.labeled:,} nodes have none" if summary.labeled < summary.nodes else ""
        rows.append(("classes", f"{summary.classes:,}{unknown}"))
    if summary.homophily is not None:
        rows.append(("homophily", f"{summary.homophily:.2f} (adjusted: 0 is chance, 1 perfect)"))
    if degree["max"] > HUB * summary.nodes and summary.nodes > 100:
        rows.append(("hubs", f"one node is linked to {degree['max'] / summary.nodes:.0%} of all"))
    return rows
