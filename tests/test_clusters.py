"""Clusters of embeddings: known groups are found, and their number too."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import normalize

from progcl import InputError, find_clusters
from progcl import clusters as clusters_module
from progcl.clusters import first_peak

GENERATOR = np.random.default_rng(0)
TRUTH = np.repeat(np.arange(5), [60, 50, 40, 30, 20])
VECTORS = (4 * GENERATOR.standard_normal((5, 80))[TRUTH] + GENERATOR.standard_normal((200, 80))).astype(np.float32)


def test_groups_and_their_number_are_found() -> None:
    found = find_clusters(VECTORS)
    assert found.count == 5
    assert adjusted_rand_score(TRUTH, found.of) == 1
    assert np.bincount(found.of).tolist() == [60, 50, 40, 30, 20]  # by size
    assert found.silhouette == pytest.approx(silhouette_score(normalize(VECTORS.astype(np.float64)), found.of))
    assert list(found.tried) == [2, 3, 4, 5, 6]  # up to the first fall
    assert "5 clusters by k-means at the first peak" in str(found)


def test_a_given_number_and_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_clusters(VECTORS, 3)
    assert found.count == 3
    assert found.tried == {}
    monkeypatch.setattr(clusters_module, "LARGE", 100)  # MiniBatchKMeans, PCA of a sample
    monkeypatch.setattr(clusters_module, "SAMPLE", 90)
    large = find_clusters(VECTORS, 5)
    assert adjusted_rand_score(TRUTH, large.of) > 0.9
    assert np.array_equal(find_clusters(VECTORS, 5).of, large.of)


def test_odd_embeddings() -> None:
    same = find_clusters(np.ones((30, 4), np.float32))
    assert (same.count, same.silhouette, same.tried) == (1, None, {})
    assert "1 cluster by" in str(same)
    assert find_clusters(np.ones((90, 70), np.float32)).count == 1
    assert find_clusters(np.eye(2, dtype=np.float32)).count == 1
    assert find_clusters(np.eye(6, dtype=np.float32), 6).count == 6
    for number in (0, 7):
        with pytest.raises(InputError, match="6 nodes cannot form"):
            find_clusters(np.eye(6, dtype=np.float32), number)


def test_the_first_peak() -> None:
    assert first_peak({2: 0.1, 3: 0.3, 4: 0.2, 5: 0.9}) == 3
    assert first_peak({2: 0.1, 3: 0.1, 4: 0.2}) == 4
    assert first_peak({}) == 1
