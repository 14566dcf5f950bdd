"""Walk vectors of nodes that join a graph later."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from torch_geometric.data import Data

from progcl.data import walk_factors
from progcl.data.structure import WalkPlan, walk_vectors
from progcl.data.synthetic import csbm
from progcl.data.walk_factors import WalkFactors
from progcl.errors import ProgclWarning

WHOLE = csbm(nodes=400, classes=4, degree=10, homophily=0.9)
OLD = torch.arange(320)


def named(data: Data, names: list[str]) -> Data:
    return Data(edge_index=data.edge_index, num_nodes=data.num_nodes, ids=names)


def numbers(nodes: torch.Tensor) -> list[str]:
    return [f"n{node}" for node in nodes.tolist()]


FACTORS = WalkFactors.fit(named(WHOLE.subgraph(OLD), numbers(OLD)), 32)


def test_the_graph_itself_has_its_own_vectors() -> None:
    graph = WHOLE.subgraph(OLD)
    assert torch.equal(FACTORS.transform(named(graph, numbers(OLD))), walk_vectors(graph.edge_index, 320, 32))


def test_known_nodes_keep_their_vectors_in_any_order() -> None:
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    shuffled = order.argsort()[WHOLE.edge_index]
    vectors = FACTORS.transform(Data(edge_index=shuffled, num_nodes=400, ids=numbers(order)))
    known = order < 320
    assert torch.equal(vectors[known], FACTORS.vectors[order[known]])
    assert (vectors[~known].norm(dim=1) - 1).abs().max() < 1e-5


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_of_the_matrix_is_its_definition(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the transition matrix: where many walks from a new node are after each step, over known nodes alone."""
    monkeypatch.setattr(walk_factors, "MAX_WALKS", 40_000)
    new, known = torch.tensor([350, 351]), torch.arange(400).where(torch.arange(400) < 320, -1)
    adjacency = torch.zeros(400, 400, dtype=torch.double)
    low, high = WHOLE.edge_index.sort(dim=0).values
    weight = 1 + (low * 7 + high) % 9 if weighted else torch.ones_like(low)
    adjacency[WHOLE.edge_index[0], WHOLE.edge_index[1]] = weight.double()
    step = adjacency / adjacency.sum(dim=1, keepdim=True).clamp_min(1)
    window, expected = WalkPlan().window, []
    for node in new:
        place, visits = torch.zeros(400, dtype=torch.double), torch.zeros(320, dtype=torch.double)
        place[node] = 1
        for steps in range(1, window + 1):
            place = place @ step
            visits += (window + 1 - steps) / window * place[:320]
        row = (visits / visits.sum() / FACTORS.frequency.double()).log()
        expected.append(row.where(FACTORS.frequency > 0, 0).clamp_min(0) @ FACTORS.contexts.double())
    found = FACTORS.fold_in(WHOLE.edge_index, new, known, weight.float() if weighted else None)
    cosines = (found.double() * normalize(torch.stack(expected), dim=1)).sum(dim=1)
    assert cosines.min() > 0.995  # what is left are errors of sampling


def test_new_nodes_are_near_those_of_their_class() -> None:
    vectors = FACTORS.transform(named(WHOLE, numbers(torch.arange(400))))
    means = torch.stack([vectors[:320][WHOLE.y[:320] == kind].mean(dim=0) for kind in range(4)])
    nearest = (vectors[320:] @ normalize(means, dim=1).T).argmax(dim=1)
    assert (nearest == WHOLE.y[320:]).float().mean() > 0.9


def test_nodes_that_reach_no_known_one_have_no_vector() -> None:
    apart = torch.tensor([[400, 401], [401, 400]])
    grown = Data(edge_index=torch.cat([WHOLE.edge_index, apart], dim=1), num_nodes=402, ids=numbers(torch.arange(402)))
    with pytest.warns(ProgclWarning, match="walks from 2 of 82 new nodes reach no known one"):
        vectors = FACTORS.transform(grown)
    assert not vectors[400:].any()


@pytest.mark.parametrize("which", ["other names", "names by chance", "another graph"])
def test_another_graph_is_not_taken_for_the_known_one(which: str) -> None:
    """Numbers for names agree by chance; neighbors do not."""
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    graph = {
        "other names": named(WHOLE, [f"other {node}" for node in range(400)]),
        "names by chance": named(WHOLE, numbers(order)),
        "another graph": named(csbm(nodes=400, degree=10, homophily=0.9, seed=3), numbers(torch.arange(400))),
    }[which]
    with pytest.warns(ProgclWarning, match="no node of the graph is known"):
        assert not FACTORS.transform(graph).any()


def test_a_graph_that_grew_tenfold_is_recognized() -> None:
    few = torch.arange(0, 400, 10)
    dense = csbm(nodes=400, classes=4, degree=60, homophily=0.9)
    factors = WalkFactors.fit(named(dense.subgraph(few), numbers(few)), 16)
    assert np.isclose(factors.transform(named(dense, numbers(torch.arange(400)))).norm(dim=1).mean(), 1, atol=0.01)


def test_structural_features_are_scaled_by_the_known_degrees() -> None:
    features = FACTORS.structural_features(named(WHOLE, numbers(torch.arange(400))))
    degree = torch.bincount(WHOLE.edge_index[0], minlength=400)
    known = torch.bincount(WHOLE.subgraph(OLD).edge_index[0])
    torch.testing.assert_close(features[:, 0], degree.float().log1p() / known.float().log1p().max())
    assert features.shape == (400, 33)


def test_weights_of_edges_lead_the_walks() -> None:
    """With all weight inside of the classes, there is nothing left between them."""
    same = WHOLE.y[WHOLE.edge_index[0]] == WHOLE.y[WHOLE.edge_index[1]]
    data = named(WHOLE, numbers(torch.arange(400)))
    data.edge_weight = torch.where(same, 1.0, 1e-6)
    apart, mixed = (WalkFactors.fit(each, 8).vectors for each in (data, named(WHOLE, data.ids)))
    between = WHOLE.y[:, None] != WHOLE.y
    assert (apart @ apart.T)[between].abs().mean() < 0.5 * (mixed @ mixed.T)[between].abs().mean()
    assert torch.equal(WalkFactors.fit(data, 8).transform(data), apart)


def test_directed_graphs_have_a_degree_for_each_direction() -> None:
    """A graph of the other kind gets as many columns: both directions are the degree, or directions do not count."""
    directed, plain = (named(WHOLE, numbers(torch.arange(400))) for _ in range(2))
    source, target = WHOLE.edge_index
    directed.edge_forward = (source < target).float()
    out, into = (torch.bincount(end[source < target], minlength=400).float().log1p() for end in (source, target))
    both = torch.bincount(source, minlength=400).float().log1p()
    factors = {"directed": WalkFactors.fit(directed, 8), "plain": WalkFactors.fit(plain, 8)}
    features = factors["directed"].structural_features(directed)
    torch.testing.assert_close(features[:, :2], torch.stack([out / out.max(), into / into.max()], dim=1))
    other = factors["directed"].structural_features(plain)
    torch.testing.assert_close(other[:, :2], torch.stack([both / out.max(), both / into.max()], dim=1))
    torch.testing.assert_close(factors["plain"].structural_features(directed)[:, 0], both / both.max())
