import networkx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx, to_undirected

from progcl.data.synthetic import csbm
from progcl.graph.centrality import CENTRALITIES, degree, eigenvector, pagerank

COMPONENTS = Data(
    edge_index=to_undirected(torch.tensor([[0, 0, 0, 1, 4], [1, 2, 3, 2, 5]])),
    num_nodes=7,
    x=torch.ones(7, 2),
)  # a triangle with a tail, an edge, and an isolated node


def test_degree() -> None:
    assert degree(COMPONENTS).tolist() == [3, 2, 2, 1, 1, 1, 0]


def test_pagerank_is_its_recurrence() -> None:
    x = [1.0] * 7
    edges = COMPONENTS.edge_index.T.tolist()
    degrees = degree(COMPONENTS).tolist()
    for _ in range(3):
        x = [0.15 * x[i] + 0.85 * sum(x[u] / degrees[u] for u, v in edges if v == i) for i in range(7)]
    assert pagerank(COMPONENTS, steps=3).tolist() == pytest.approx(x, rel=1e-5)


def test_eigenvector_is_networkx_on_a_connected_graph() -> None:
    data = csbm(nodes=80, degree=12.0)
    graph = to_networkx(data, to_undirected=True)
    assert networkx.is_connected(graph)
    expected = networkx.eigenvector_centrality_numpy(graph)
    assert eigenvector(data).tolist() == pytest.approx([expected[i] for i in range(80)], abs=1e-5)


def test_eigenvector_of_several_components_lives_on_the_leading_one() -> None:
    central = eigenvector(COMPONENTS)
    assert (central[:4] > 0.2).all()
    assert (central[4:] < 1e-6).all()
    assert (central > 0).all()


@pytest.mark.parametrize("name", CENTRALITIES)
def test_without_edges_all_nodes_are_equally_central(name: str) -> None:
    empty = Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=4, x=torch.ones(4, 1))
    central = CENTRALITIES[name](empty, 3)
    assert central.isfinite().all()
    torch.testing.assert_close(central, central[:1].expand(4))
