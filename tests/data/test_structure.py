"""Features computed from the edges, for graphs that have none."""

import networkx
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from progcl.data import csbm
from progcl.data.prepare import prepare
from progcl.data.structure import WalkPlan, mirror, walk_vectors


def test_nodes_with_the_same_neighborhood_have_similar_features() -> None:
    """Two rings of cliques tied by one edge: nodes near each other are alike."""
    graph = networkx.disjoint_union(networkx.ring_of_cliques(6, 5), networkx.ring_of_cliques(6, 5))
    graph.add_edge(0, 30)
    data = prepare(Data(edge_index=torch.tensor(list(graph.edges)).T, num_nodes=60))
    assert any("no features" in remark for remark in data.remarks)
    assert data.x.shape == (60, 1 + 60)
    assert data.x[2] @ data.x[3] > data.x[2] @ data.x[33] + 0.4
    assert data.x[0, 0] == data.x[:, 0].max() == 1  # it has the most neighbors


def test_walk_vectors_factorize_the_expected_counts_of_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the transition matrix: where walks from every node are after so many steps, and then some steps later."""
    monkeypatch.setattr(WalkPlan, "for_size", lambda nodes: WalkPlan(walks=3000, length=5, window=2))
    data = csbm(nodes=30, classes=3, degree=4, homophily=0.9)
    adjacency = torch.zeros(30, 30, dtype=torch.double)
    adjacency[data.edge_index[0], data.edge_index[1]] = 1
    degree = adjacency.sum(dim=1, keepdim=True)
    transition, counts = adjacency / degree.clamp_min(1), torch.zeros(30, 30, dtype=torch.double)
    for place in range(5):
        visits = (degree.flatten() > 0).double() @ torch.linalg.matrix_power(transition, place)
        for step in (1, 2):
            if place + step < 5:
                counts += (3 - step) / 2 * visits[:, None] * torch.linalg.matrix_power(transition, step)
    counts = (counts + counts.T).fill_diagonal_(0)
    total, rows = counts.sum(), counts.sum(dim=1)
    matrix = (counts * total / rows[:, None].clamp_min(1e-9) / rows.clamp_min(1e-9)).log().clamp_min(0)
    left, values, _ = torch.linalg.svd(matrix)
    expected = torch.nn.functional.normalize((left * values)[:, :6], dim=1)
    found = walk_vectors(data.edge_index, 30, 6).double()
    torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=0.05, rtol=0)  # up to a rotation


def test_large_graphs_have_fewer_and_shorter_walks() -> None:
    assert WalkPlan.for_size(5_000) == (10, 40, 10)
    assert WalkPlan.for_size(100_000) == (3, 40, 10)
    assert WalkPlan.for_size(1_000_000) == (1, 20, 5)


def test_walks_do_not_depend_on_the_number_of_threads() -> None:
    data = csbm(nodes=2000, degree=8)
    threads = torch.get_num_threads()
    features = []
    for number in (1, 2):
        torch.set_num_threads(number)
        features.append(walk_vectors(data.edge_index, 2000))
    torch.set_num_threads(threads)
    assert torch.equal(*features)


@pytest.mark.parametrize("nodes", [1, 5, 16, 50])
def test_a_mirrored_matrix_is_the_sum_with_its_transpose(nodes: int) -> None:
    upper = scipy.sparse.triu(scipy.sparse.random(nodes, nodes, 0.3, "csr", random_state=0), k=1, format="csr")
    assert (mirror(upper) != upper + upper.T).nnz == 0
