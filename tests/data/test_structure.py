"""Features computed from the edges, for graphs that have none."""

from collections.abc import Iterator

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.utils.extmath import randomized_svd
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.data import csbm, structure
from progcl.data.prepare import prepare
from progcl.data.structure import ITERATIONS, PairMatrix, WalkPlan, factorize_walks, walk, walk_vectors


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
def test_half_a_matrix_of_pairs_stands_for_all_of_it(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structure, "ROWS_PER_PART", 16)
    upper = [
        scipy.sparse.triu(scipy.sparse.random(nodes, nodes, 0.3, "csr", np.float32, random_state=seed), 1, "csr")
        for seed in (0, 1)
    ]
    matrix = PairMatrix(nodes)
    for each in upper:
        matrix.add(each)
    whole = (upper[0] + upper[1] + (upper[0] + upper[1]).T).toarray()
    x = np.random.default_rng(0).normal(size=(nodes, 3)).astype(np.float32)
    np.testing.assert_allclose(matrix @ x, whole @ x, atol=1e-5)
    np.testing.assert_allclose(matrix @ np.ones(nodes, np.float32), whole.sum(axis=1), atol=1e-5)


def test_walk_vectors_are_those_of_the_whole_matrix() -> None:
    data = prepare(csbm(300, seed=0))
    edges, plan = data.edge_index, WalkPlan.for_size(300)
    counts = sum(part_of_pairs(edges, plan), scipy.sparse.csr_matrix((300, 300))).toarray()
    rows = counts.sum(axis=1)
    with np.errstate(divide="ignore"):
        matrix = np.maximum(np.log(counts * rows.sum() / np.outer(rows, rows)), 0).astype(np.float32)
    left, values, right = randomized_svd(matrix, 16, n_iter=ITERATIONS, random_state=0)
    factors = factorize_walks(edges, 300, 16)
    torch.testing.assert_close(factors.vectors, normalize(torch.from_numpy(left * values).float()), atol=1e-3, rtol=0)
    torch.testing.assert_close(factors.contexts, torch.from_numpy(right.T.copy()).float(), atol=1e-3, rtol=0)


def part_of_pairs(edges: torch.Tensor, plan: WalkPlan) -> Iterator[scipy.sparse.csr_matrix]:
    """Pairs of nodes on walks, in both orders, for each walk and distance."""
    generator = np.random.default_rng(0)
    for _ in range(plan.walks):
        paths = walk(edges, 300, plan.length, generator)
        for step in range(1, plan.window + 1):
            first, second = paths[:-step].ravel(), paths[step:].ravel()
            weight = np.where(first != second, (plan.window + 1 - step) / plan.window, 0)
            once = scipy.sparse.csr_matrix((weight, (first, second)), shape=(300, 300))
            yield once + once.T
