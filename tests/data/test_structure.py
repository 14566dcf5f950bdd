"""Features computed from the edges, for graphs that have none."""

import pytest
import torch
from torch_geometric.data import Data

from progcl.data import csbm
from progcl.data.prepare import prepare
from progcl.data.structure import structural_features
from progcl.graph.views import Graph, View


def test_nodes_with_the_same_neighborhood_have_similar_features() -> None:
    """Two triangles tied by one edge: nodes of a triangle are alike."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]])
    data = prepare(Data(edge_index=edges, num_nodes=6))
    assert any("no features" in remark for remark in data.remarks)
    assert data.x.shape == (6, 1 + 6)
    assert data.x[0] @ data.x[1] > data.x[0] @ data.x[5] + 0.4
    assert data.x[2, 0] == data.x[:, 0].max() == 1  # it has the most neighbors


def test_walks_are_those_of_dense_powers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.data.structure.DIMENSIONS", 8)
    monkeypatch.setattr("progcl.data.structure.OVERSAMPLING", 30)
    data = csbm(nodes=90, classes=4, degree=8, homophily=0.9)
    step = View(Graph(data)).symmetric.csr.to_dense().double()
    mean = sum(torch.linalg.matrix_power(step, power) for power in range(1, 11)) / 10
    assert isinstance(mean, torch.Tensor)
    strength, vectors = torch.linalg.eigh(mean)
    expected = torch.nn.functional.normalize((vectors * strength)[:, -8:], dim=1)
    found = structural_features(data.edge_index, 90)[:, 1:].double()
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-2, rtol=0)  # up to a rotation


def test_walks_do_not_depend_on_the_number_of_threads() -> None:
    data = csbm(nodes=2000, degree=8)
    threads = torch.get_num_threads()
    features = []
    for number in (1, 2):
        torch.set_num_threads(number)
        features.append(structural_features(data.edge_index, 2000))
    torch.set_num_threads(threads)
    assert torch.equal(*features)
