"""What a user's graph is made into, and what is said of it."""

import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.prepare import prepare
from progcl.data.structure import structural_features
from progcl.data.synthetic import csbm
from progcl.graph.views import Graph, View

SYMMETRIC = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def graph(edges: torch.Tensor, nodes: int = 3, x: torch.Tensor | None = None) -> Data:
    rows = torch.eye(nodes) if x is None else x
    return Data(edge_index=edges, num_nodes=nodes, x=rows)


def test_a_good_graph_stays_as_it_is() -> None:
    data = prepare(graph(SYMMETRIC))
    assert data.remarks == []
    assert set(map(tuple, data.edge_index.T.tolist())) == set(map(tuple, SYMMETRIC.T.tolist()))
    assert torch.equal(data.x, torch.eye(3))


@pytest.mark.parametrize(
    ("edges", "nodes", "remark"),
    [
        ([[0, 1, 2, 2], [1, 2, 0, 2]], 3, "1 self-loop left out"),
        ([[0, 0, 1], [1, 1, 2]], 3, "1 duplicate edge left out"),
        ([[0, 1, 2], [1, 2, 0]], 3, "used in both directions"),
        ([[0, 1, 2], [1, 2, 0]], 5, "2 isolated nodes"),
        ([[0, 1, 2, 3], [1, 0, 3, 2]], 4, "2 parts without edges between them"),
    ],
)
def test_odd_edges_work_and_are_said(edges: list[list[int]], nodes: int, remark: str) -> None:
    data = prepare(graph(torch.tensor(edges), nodes))
    assert any(remark in each for each in data.remarks)
    pairs = set(map(tuple, data.edge_index.T.tolist()))
    assert len(pairs) == data.edge_index.size(1)
    assert all(a != b and (b, a) in pairs for a, b in pairs)


@pytest.mark.parametrize(
    ("x", "remark"),
    [
        ([[1, 0], [1, 1], [1, 2]], "1 feature of 2 the same for all nodes"),
        ([[0, 1], [0, 1], [1, 0]], "1 node with features that another node has, too"),
        ([[0, 1, 1e6], [1, 1, 2], [2, 0, 3]], "rescale the columns"),
    ],
)
def test_odd_features_work_and_are_said(x: list[list[float]], remark: str) -> None:
    data = prepare(graph(SYMMETRIC, x=torch.tensor(x, dtype=torch.float)))
    assert any(remark in each for each in data.remarks)


def test_what_cannot_be_embedded() -> None:
    with pytest.raises(InputError, match="no edges"):
        prepare(graph(torch.tensor([[1], [1]])))
    with pytest.raises(InputError, match="at least 2 nodes"):
        prepare(graph(torch.tensor([[0], [0]]), nodes=1))


def test_without_features_walks_say_where_a_node_is() -> None:
    """Two triangles tied by one edge: nodes of a triangle are alike."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]])
    data = prepare(Data(edge_index=edges, num_nodes=6))
    assert any("no features" in remark for remark in data.remarks)
    assert data.x.shape == (6, 1 + 6)
    assert data.x[0] @ data.x[1] > data.x[0] @ data.x[5] + 0.4
    assert data.x[2, 0] == data.x[:, 0].max() == 1  # it has the most neighbors


def test_walks_are_those_of_dense_powers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.data.structure.WIDTH", 8)
    monkeypatch.setattr("progcl.data.structure.SPARE", 30)
    data = csbm(nodes=90, classes=4, degree=8, homophily=0.9)
    step = View(Graph(data)).symmetric.matrix.to_dense().double()
    mean = sum(torch.linalg.matrix_power(step, power) for power in range(1, 11)) / 10
    assert isinstance(mean, torch.Tensor)
    strength, vectors = torch.linalg.eigh(mean)
    expected = torch.nn.functional.normalize((vectors * strength)[:, -8:], dim=1)
    found = structural_features(data.edge_index, 90)[:, 1:].double()
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-2, rtol=0)  # up to a rotation


def test_walks_do_not_depend_on_the_number_of_threads() -> None:
    data = csbm(nodes=2000, degree=8)
    threads = torch.get_num_threads()
    made = []
    for number in (1, 2):
        torch.set_num_threads(number)
        made.append(structural_features(data.edge_index, 2000))
    torch.set_num_threads(threads)
    assert torch.equal(*made)
