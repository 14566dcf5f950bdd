"""Neighbors of all nodes: those of scikit-learn, in blocks, and by faiss."""

import sys

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from progcl import InputError, all_neighbors
from progcl import neighbors as neighbors_module
from progcl.neighbors import neighbor_blocks, uses_faiss

VECTORS = np.random.default_rng(0).standard_normal((120, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors_module, "TILE_ROWS", 32)
    monkeypatch.setattr(neighbors_module, "TILE_COLUMNS", 25)


def test_neighbors_are_those_of_scikit_learn() -> None:
    distances, expected = NearestNeighbors(n_neighbors=7, metric="cosine").fit(VECTORS).kneighbors()
    nodes, cosines = all_neighbors(VECTORS, 7)
    np.testing.assert_array_equal(nodes, expected)
    np.testing.assert_allclose(cosines, 1 - distances, atol=1e-6)


def test_blocks_are_bounded_and_no_node_is_its_own_neighbor() -> None:
    blocks = list(neighbor_blocks(VECTORS, 3))
    assert [len(nodes) for nodes, _, _ in blocks] == [32, 32, 32, 24]
    for nodes, near, cosines in blocks:
        assert near.shape == cosines.shape == (len(nodes), 3)
        assert not (near == nodes[:, None]).any()


@pytest.mark.parametrize("search", ["exact", "faiss"])
def test_more_neighbors_than_nodes_and_rows_of_zeros(search: str) -> None:
    if search == "faiss":
        pytest.importorskip("faiss", reason="the optional package faiss is not installed")
    rows = np.concatenate([VECTORS[:4], np.zeros((2, 6), np.float32), VECTORS[:1]])
    nodes, cosines = all_neighbors(rows, 50, search)  # type: ignore[arg-type]
    assert nodes.shape == (7, 6)
    assert all(sorted([row, *near]) == list(range(7)) for row, near in enumerate(nodes.tolist()))
    assert (cosines[4] == 0).all()
    assert nodes[0, 0] == 6
    assert cosines[0, 0] == pytest.approx(1)


def test_faiss_finds_nearly_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="the optional package faiss is not installed")
    monkeypatch.setattr(neighbors_module, "PROBED_CELLS", 8)
    monkeypatch.setattr(neighbors_module, "TILE_COLUMNS", 300)
    generator = np.random.default_rng(1)
    groups = generator.standard_normal((20, 16)).repeat(50, axis=0)
    rows = (groups + 0.5 * generator.standard_normal((1000, 16))).astype(np.float32)
    exact, cosines = all_neighbors(rows, 5, "exact")
    found, approximate = all_neighbors(rows, 5, "faiss")
    shared = np.mean([len(set(a) & set(b)) for a, b in zip(exact, found, strict=True)]) / 5
    assert shared > 0.9
    first = found[:, 0] == exact[:, 0]
    np.testing.assert_allclose(approximate[first, 0], cosines[first, 0], atol=1e-5)


def test_faiss_is_chosen_for_large_graphs_only_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbors_module, "find_spec", lambda name: name)
    assert uses_faiss(100_000, "auto")
    assert not uses_faiss(1_000, "auto")
    assert not uses_faiss(100_000, "exact")
    monkeypatch.setattr(neighbors_module, "find_spec", lambda name: None)
    assert not uses_faiss(100_000, "auto")
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match="faiss is not installed") as error:
        all_neighbors(VECTORS, 3, "faiss")
    assert "pip install" in error.value.hint
