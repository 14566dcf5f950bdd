"""Missing links are those of a loop over all pairs, and existing edges are never among them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import cosine_similarity

from progcl import InputError, score_pairs, top_links
from progcl import links as links_module
from progcl import neighbors as neighbors_module
from progcl.config.schema import DataConfig
from progcl.data.synthetic import csbm
from progcl.links import load_edges

DATA = csbm(nodes=110, classes=3, degree=10, features=5)
X = DATA.x.numpy()


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (neighbors_module, links_module):
        monkeypatch.setattr(module, "TILE_ROWS", 32)
    monkeypatch.setattr(neighbors_module, "TILE_COLUMNS", 25)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("number", [1, 20, 700])
def test_top_links_are_those_of_a_loop(number: int) -> None:
    cosines, edges = cosine_similarity(X.astype(np.float64)), set(map(tuple, DATA.edge_index.T.tolist()))
    free = [(a, b) for a in range(110) for b in range(a + 1, 110) if (a, b) not in edges]
    expected = sorted(free, key=lambda pair: -cosines[pair])[:number]
    one_way = DATA.edge_index[:, DATA.edge_index[0] > DATA.edge_index[1]]
    for given in (DATA.edge_index, one_way):
        pairs, scores = top_links(X, given, number)
        assert list(map(tuple, pairs.T.tolist())) == expected
        assert scores == pytest.approx([cosines[pair] for pair in expected], abs=1e-6)


def test_all_pairs_that_there_are() -> None:
    path = torch.tensor([[0, 1, 2], [1, 2, 3]])
    pairs, scores = top_links(torch.eye(4), path, 100)
    assert pairs.T.tolist() == [[0, 2], [0, 3], [1, 3]]
    assert scores.tolist() == [0, 0, 0]
    complete, none = top_links(torch.eye(3), torch.tensor([[0, 1, 2], [1, 2, 0]]))
    assert complete.shape == (2, 0)
    assert none.shape == (0,)
    with pytest.raises(InputError, match="at least 1"):
        top_links(torch.eye(4), path, 0)


def test_pairs_are_scored_by_cosine() -> None:
    pairs = np.array([[0, 5, 5], [1, 9, 5]])
    expected = cosine_similarity(X.astype(np.float64))[pairs[0], pairs[1]]
    assert score_pairs(X, pairs) == pytest.approx(expected, abs=1e-12)
    for bad in ([[0], [110]], [[-1], [3]]):
        with pytest.raises(InputError, match="does not exist"):
            score_pairs(X, np.array(bad))


def test_edges_of_a_run(tmp_path: Path) -> None:
    file = tmp_path / "g.csv"
    file.write_text("a,b\nb,c\n")
    config = DataConfig(name="file", graph=str(file), holdout=0.1)
    assert load_edges(config, ["a", "b", "c"]).tolist() == [[0, 1], [1, 2]]
    with pytest.raises(InputError, match="other nodes"):
        load_edges(config, ["a", "b", "d"])
    built_in = load_edges(DataConfig(name="csbm", nodes=50, holdout=0.2), [str(node) for node in range(50)])
    assert torch.equal(built_in, csbm(nodes=50).edge_index)
    with pytest.raises(InputError, match="no file") as error:
        load_edges(DataConfig(name="own"), ["a"])
    assert "top_links" in error.value.hint
