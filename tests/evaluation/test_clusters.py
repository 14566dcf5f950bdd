"""Clusters against labels, and in the folder of a run."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from torch_geometric.data import Data

from progcl import InputError
from progcl.clusters import Clusters
from progcl.evaluation.clusters import cluster_run, compare_with_labels, describe_clusters, describe_run_clusters
from progcl.export import load_clusters

CLUSTERS = Clusters(np.array([0, 0, 0, 1, 1, 2, 2, 0]), 0.25)


def test_nodes_without_a_label_are_left_aside() -> None:
    labels = [0, 0, 1, 1, 1, 2, -1, -1]
    agreement = compare_with_labels(CLUSTERS, Data(y=torch.tensor(labels)))
    pair = labels[:6], CLUSTERS.of[:6]
    assert agreement == {"NMI": normalized_mutual_info_score(*pair), "ARI": adjusted_rand_score(*pair)}
    assert "silhouette 0.250, NMI 0." in describe_clusters(CLUSTERS, agreement)
    assert compare_with_labels(CLUSTERS, Data()) == {}
    assert compare_with_labels(CLUSTERS, Data(y=torch.full((8,), -1))) == {}


def test_clusters_of_a_run_are_stored(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    data = Data(y=torch.arange(40) % 2)
    assert cluster_run(tmp_path, vectors, data, None) is None
    assert describe_run_clusters(tmp_path, 40) == ""
    made = cluster_run(tmp_path, vectors, data, "auto")
    stored = load_clusters(tmp_path, 40)
    assert made is not None
    assert stored is not None
    assert np.array_equal(stored.of, made.of)
    assert (stored.silhouette, stored.tried) == (made.silhouette, made.tried)
    assert "ARI" in describe_run_clusters(tmp_path, 40)
    with pytest.raises(InputError, match="40 nodes, the run has 41"):
        load_clusters(tmp_path, 41)
