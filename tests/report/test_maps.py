"""Maps: neighbors against a loop, places and clusters that are the same each time, and odd input."""

import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from progcl.export import nearest
from progcl.report import maps
from progcl.report.maps import cluster, layout, make_map, neighbors, principal, to_uint16, unit_rows
from support.stories import make_story

Vectors = NDArray[np.float32]


def vectors(nodes: int, width: int = 6) -> Vectors:
    return np.random.default_rng(0).standard_normal((nodes, width)).astype(np.float32)


def test_neighbors_are_those_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "ROWS", 7)
    embeddings = vectors(40)
    near, cosines = neighbors(unit_rows(embeddings), 5)
    for node in range(40):
        expected = nearest(embeddings, node, 5)
        assert near[node].tolist() == [other for other, _ in expected]
        assert cosines[node] == pytest.approx([cosine for _, cosine in expected])


def test_neighbors_of_few_or_equal_nodes() -> None:
    assert neighbors(unit_rows(vectors(1)), 5)[0].shape == (1, 0)
    near, cosines = neighbors(unit_rows(np.ones((3, 2), np.float32)), 5)
    assert near.tolist() == [[1, 2], [0, 2], [0, 1]]
    assert cosines == pytest.approx(np.ones((3, 2)))
    assert (neighbors(np.zeros((3, 2)), 2)[1] == 0).all()


def test_clusters_are_found_and_numbered_by_size() -> None:
    rows = np.repeat(np.eye(3), [2, 9, 5], axis=0)
    assert cluster(rows, 3).tolist() == [2] * 2 + [0] * 9 + [1] * 5
    assert set(cluster(np.ones((9, 2)), 4)) == {0}
    assert [len(set(cluster(unit_rows(vectors(nodes))))) for nodes in (2, 10, 200)] == [1, 2, 8]


def test_many_nodes_are_clustered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "SOME", 10)
    rows = np.repeat(np.eye(3), [20, 90, 50], axis=0)
    assert cluster(rows, 3).tolist() == [2] * 20 + [0] * 90 + [1] * 50


def test_principal_directions_keep_distances_in_a_plane() -> None:
    plane = vectors(20, 2).astype(np.float64)
    turned = plane @ np.linalg.qr(np.random.default_rng(1).standard_normal((5, 2)))[0].T
    flat = principal(turned, 2)
    for points in (plane, flat):
        points -= points.mean(axis=0)
    np.testing.assert_allclose(flat @ flat.T, plane @ plane.T, atol=1e-9)
    assert flat.var(axis=0)[0] >= flat.var(axis=0)[1]
    assert (principal(np.ones((3, 1)), 2) == 0).all()


def test_places_fill_16_bits_on_one_scale() -> None:
    spots = to_uint16(np.array([[-1.0, 0.0], [3.0, 1.0], [1.0, 2.0]]))
    assert spots[:, 0].tolist() == [0, 65535, 32768]
    assert spots[:, 1].max() - spots[:, 1].min() == pytest.approx(65535 / 2, abs=1)
    assert set(to_uint16(np.zeros((4, 2))).ravel().tolist()) == {32768}


@pytest.mark.parametrize("nodes", [1, 2, 3, 9, 10, 12])
def test_equal_rows_and_lines_have_a_place(nodes: int) -> None:
    for embeddings in (np.ones((nodes, 4)), np.zeros((nodes, 4)), np.arange(nodes)[:, None] - 1.0):
        chart = make_map(embeddings.astype(np.float32))
        assert chart.spots.shape == (nodes, 2)
        assert chart.clusters.shape == (nodes,)


def test_t_sne_keeps_groups_together() -> None:
    chart = make_map(make_story(90).embeddings, 3)
    spots, groups = chart.spots.astype(float), np.arange(90) % 3
    centers = np.stack([spots[groups == group].mean(axis=0) for group in range(3)])
    own = np.linalg.norm(spots[:, None] - centers, axis=2).argmin(axis=1)
    assert chart.method == "t-SNE"
    assert (own == groups).all()


def test_large_maps_by_open_tsne_or_else_by_pca(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "SOME", 100)
    monkeypatch.setattr(maps, "STEPS", 12)
    rows = unit_rows(make_story(300).embeddings)
    near, cosines = neighbors(rows, 90)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "openTSNE", None)
        spots, method = layout(rows, near, cosines)
        assert method == "PCA"
        np.testing.assert_array_equal(spots, principal(rows, 2))
    pytest.importorskip("openTSNE")
    spots, method = layout(rows, near, cosines)
    groups = np.arange(300) % 3
    centers = np.stack([spots[groups == group].mean(axis=0) for group in range(3)])
    assert method == "t-SNE"
    assert (np.linalg.norm(spots[:, None] - centers, axis=2).argmin(axis=1) == groups).all()
    np.testing.assert_array_equal(layout(rows, near, cosines)[0], spots)


def test_a_sample_is_drawn_by_its_seed() -> None:
    embeddings = vectors(50)
    chart = make_map(embeddings, shown=20)
    assert len(chart.nodes) == len(set(chart.nodes)) == 20
    assert (np.diff(chart.nodes) > 0).all()
    assert chart.near.max() < 20
    assert chart.nodes.tolist() == make_map(embeddings, shown=20).nodes.tolist()
    assert chart.nodes.tolist() != make_map(embeddings, shown=20, seed=1).nodes.tolist()
