"""What a user's graph is made into, and what is said of it."""

import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError
from progcl.intake import WALKS, WIDTH, structure, taken_in

SYMMETRIC = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def graph(edges: torch.Tensor, nodes: int = 3, x: torch.Tensor | None = None) -> Data:
    rows = torch.eye(nodes) if x is None else x
    return Data(edge_index=edges, num_nodes=nodes, x=rows)


def test_a_good_graph_stays_as_it_is() -> None:
    data = taken_in(graph(SYMMETRIC))
    assert data.remarks == []
    assert set(map(tuple, data.edge_index.T.tolist())) == set(map(tuple, SYMMETRIC.T.tolist()))
    assert torch.equal(data.x, torch.eye(3))


@pytest.mark.parametrize(
    ("edges", "nodes", "remark"),
    [
        ([[0, 1, 2, 2], [1, 2, 0, 2]], 3, "1 self-loop left out"),
        ([[0, 0, 1], [1, 1, 2]], 3, "1 duplicate edge left out"),
        ([[0, 1, 2], [1, 2, 0]], 3, "used in both"),
        ([[0, 1, 2], [1, 2, 0]], 5, "2 isolated nodes"),
        ([[0, 1, 2, 3], [1, 0, 3, 2]], 4, "2 separate parts"),
    ],
)
def test_odd_edges_work_and_are_said(edges: list[list[int]], nodes: int, remark: str) -> None:
    data = taken_in(graph(torch.tensor(edges), nodes))
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
    data = taken_in(graph(SYMMETRIC, x=torch.tensor(x, dtype=torch.float)))
    assert any(remark in each for each in data.remarks)


def test_what_cannot_be_embedded() -> None:
    with pytest.raises(InputError, match="no edges"):
        taken_in(graph(torch.tensor([[1], [1]])))
    with pytest.raises(InputError, match="at least 2 nodes"):
        taken_in(graph(torch.tensor([[0], [0]]), nodes=1))


def test_without_features_walks_say_where_a_node_is() -> None:
    """Two triangles tied by one edge: nodes of a triangle are alike, and the numbers are those of a naive walk."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]])
    data = taken_in(Data(edge_index=edges, num_nodes=6))
    assert any("no features" in remark for remark in data.remarks)
    assert data.x.shape == (6, 1 + WALKS * WIDTH)
    near, far = data.x[0] @ data.x[1], data.x[0] @ data.x[5]
    assert near > far
    walk = torch.zeros(6, 6)
    walk[data.edge_index[1], data.edge_index[0]] = 1
    walk /= walk.sum(dim=1, keepdim=True)
    ends = torch.randn(6, WIDTH, generator=torch.Generator().manual_seed(0))
    twice = torch.nn.functional.normalize(walk @ walk @ ends, dim=1)
    torch.testing.assert_close(structure(data.edge_index, 6)[:, 1 + WIDTH : 1 + 2 * WIDTH], twice)
