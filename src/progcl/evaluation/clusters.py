"""Clusters against labels, where there are any."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch_geometric.data import Data

from progcl.checksums import read_json
from progcl.clusters import Clusters, find_clusters
from progcl.data.labels import labels_of
from progcl.export import load_clusters, save_clusters

AGREEMENT = ("NMI", "ARI")


def cluster_run(run: Path, vectors: NDArray[np.float32], data: Data, number: int | str | None) -> Clusters | None:
    """Cluster the embeddings [N, d] of a run, compare with the labels, and write both to its folder; None does not."""
    if number is None:
        return None
    clusters = find_clusters(vectors, "auto" if number == "auto" else int(number))
    save_clusters(run, clusters, compare_with_labels(clusters, data))
    return clusters


def compare_with_labels(clusters: Clusters, data: Data) -> dict[str, float]:
    """Normalized mutual information and adjusted Rand index with the labels, over the nodes that have one.

    Both are 1 for the same partition; the Rand index is 0 for clusters at random. Empty without labels.
    """
    if data.get("y") is None:
        return {}
    labels = labels_of(data)
    known = labels >= 0
    if not known.any():
        return {}
    pair = (labels[known], clusters.of[known])
    return {"NMI": float(normalized_mutual_info_score(*pair)), "ARI": float(adjusted_rand_score(*pair))}


def describe_clusters(clusters: Clusters, agreement: dict[str, float]) -> str:
    """A line on the clusters, and on their agreement with labels."""
    with_labels = " and ".join(f"{name} {agreement[name]:.3f}" for name in AGREEMENT if name in agreement)
    return f"{clusters}" + (f", {with_labels} with the labels" if with_labels else "")


def describe_run_clusters(run: Path, nodes: int) -> str:
    """The same of the clusters in a run folder; empty if there are none."""
    clusters = load_clusters(run, nodes)
    if clusters is None:
        return ""
    stored = read_json(run / "clusters.json")
    return describe_clusters(clusters, {name: stored[name] for name in AGREEMENT if name in stored})
