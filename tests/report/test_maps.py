"""Maps: neighbors against a loop, reproducible positions and clusters, and degenerate input."""

import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from progcl.export import nearest
from progcl.report import maps
from progcl.report.maps import cluster, find_neighbors, layout_nodes, make_map, project_pca, quantize
from support.stories import make_story

Vectors = NDArray[np.float32]


def vectors(nodes: int, width: int = 6) -> Vectors:
    return np.random.default_rng(0).standard_normal((nodes, width)).astype(np.float32)


def test_neighbors_are_those_of_a_loop() -> None:
    embeddings = vectors(40)
    found, cosines = find_neighbors(normalize(embeddings), 5)
    for node in range(40):
        expected = nearest(embeddings, node, 5)
        assert found[node].tolist() == [other for other, _ in expected]
        assert cosines[node] == pytest.approx([cosine for _, cosine in expected])


def test_neighbors_of_few_or_equal_nodes() -> None:
    assert find_neighbors(normalize(vectors(1)), 5)[0].shape == (1, 0)
    found, cosines = find_neighbors(normalize(np.ones((3, 2), np.float32)), 5)
    assert found.tolist() == [[1, 2], [0, 2], [0, 1]]
    assert cosines == pytest.approx(np.ones((3, 2)))
    assert (find_neighbors(np.zeros((3, 2)), 2)[1] == 0).all()


def test_a_row_of_zeros_has_cosine_0_to_all_others() -> None:
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    found, cosines = find_neighbors(rows, 4)
    assert found[0].tolist() == [1, 2, 4, 3]
    assert cosines[0] == pytest.approx([0.6, 0, 0, -1])
    assert cosines[2] == pytest.approx(np.zeros(4))


def test_clusters_are_found_and_numbered_by_size() -> None:
    rows = np.repeat(np.eye(3, dtype=np.float32), [2, 9, 5], axis=0)
    assert cluster(rows, 3).tolist() == [2] * 2 + [0] * 9 + [1] * 5
    assert set(cluster(np.ones((9, 2), np.float32), 4)) == {0}
    assert [len(set(cluster(normalize(vectors(nodes))))) for nodes in (2, 10, 200)] == [1, 2, 8]


def test_many_nodes_are_clustered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "LARGE_MAP", 10)
    rows = np.repeat(np.eye(3, dtype=np.float32), [20, 90, 50], axis=0)
    assert cluster(rows, 3).tolist() == [2] * 20 + [0] * 90 + [1] * 50


def test_principal_directions_keep_distances_in_a_plane() -> None:
    plane = vectors(20, 2).astype(np.float64)
    turned = plane @ np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0].T
    flat = project_pca(turned, 2)
    for points in (plane, flat):
        points -= points.mean(axis=0)
    np.testing.assert_allclose(flat @ flat.T, plane @ plane.T, atol=1e-9)
    assert flat.var(axis=0)[0] >= flat.var(axis=0)[1]
    assert (project_pca(np.ones((3, 1)), 2) == 0).all()


def test_positions_fill_16_bits_on_one_scale() -> None:
    positions = quantize(np.array([[-1.0, 0.0], [3.0, 1.0], [1.0, 2.0]]))
    assert positions[:, 0].tolist() == [0, 65535, 32768]
    assert positions[:, 1].max() - positions[:, 1].min() == pytest.approx(65535 / 2, abs=1)
    assert set(quantize(np.zeros((4, 2))).ravel().tolist()) == {32768}


@pytest.mark.parametrize("nodes", [1, 2, 3, 9, 10, 12])
def test_equal_rows_and_lines_are_mapped(nodes: int) -> None:
    for embeddings in (np.ones((nodes, 4)), np.zeros((nodes, 4)), np.arange(nodes)[:, None] - 1.0):
        chart = make_map(embeddings.astype(np.float32))
        assert chart.positions.shape == (nodes, 2)
        assert chart.clusters.shape == (nodes,)


def test_t_sne_keeps_groups_together() -> None:
    chart = make_map(make_story(90).embeddings, 3)
    positions, groups = chart.positions.astype(float), np.arange(90) % 3
    centers = np.stack([positions[groups == group].mean(axis=0) for group in range(3)])
    own = np.linalg.norm(positions[:, None] - centers, axis=2).argmin(axis=1)
    assert chart.method == "t-SNE"
    assert (own == groups).all()


def test_large_maps_by_open_tsne_or_else_by_pca(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "LARGE_MAP", 100)
    monkeypatch.setattr(maps, "TSNE_ITERATIONS", 12)
    rows = normalize(make_story(300).embeddings)
    found, cosines = find_neighbors(rows, 90)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "openTSNE", None)
        positions, method = layout_nodes(rows, found, cosines)
        assert method == "PCA"
        np.testing.assert_array_equal(positions, project_pca(rows, 2))
    pytest.importorskip("openTSNE")
    positions, method = layout_nodes(rows, found, cosines)
    groups = np.arange(300) % 3
    centers = np.stack([positions[groups == group].mean(axis=0) for group in range(3)])
    assert method == "t-SNE"
    assert (np.linalg.norm(positions[:, None] - centers, axis=2).argmin(axis=1) == groups).all()
    np.testing.assert_array_equal(layout_nodes(rows, found, cosines)[0], positions)


def test_a_sample_is_drawn_by_its_seed() -> None:
    embeddings = vectors(50)
    chart = make_map(embeddings, max_nodes=20)
    assert len(chart.nodes) == len(set(chart.nodes)) == 20
    assert (np.diff(chart.nodes) > 0).all()
    assert chart.neighbors.max() < 20
    assert chart.nodes.tolist() == make_map(embeddings, max_nodes=20).nodes.tolist()
    assert chart.nodes.tolist() != make_map(embeddings, max_nodes=20, seed=1).nodes.tolist()
