import math

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.data.synthetic import csbm
from progcl.graph.augmentations import MAX_DROP_RATE, adaptive_rates, edge_unimportance, feature_unimportance
from progcl.graph.centrality import CENTRALITIES, degree
from progcl.graph.views import Graph

DATA = csbm(nodes=2000, degree=10.0, features=400)
GRAPH = Graph(DATA)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("edges", "features"), [(0.3, 0.1), (0.6, 0.4), (0.0, 0.0), (1.0, 1.0)])
def test_rates_are_kept_within_binomial_bounds(edges: float, features: float) -> None:
    edge_mask, feature_mask = masks(edges, features)
    assert_binomial(int((~edge_mask).sum()), DATA.edge_index.size(1), edges)
    assert_binomial(int((~feature_mask).sum()), 400, features)


def masks(edges: float | Tensor, features: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    view = GRAPH.view(edges, features, seeded(seed))
    assert view.edge_mask is not None
    assert view.feature_mask is not None
    return view.edge_mask, view.feature_mask


def assert_binomial(successes: int, trials: int, rate: float) -> None:
    """Within five standard deviations."""
    assert abs(successes - trials * rate) <= 5 * math.sqrt(trials * rate * (1 - rate))


def test_directions_of_an_edge_are_dropped_independently() -> None:
    edge_mask, _ = masks(0.5, 0.0)
    remaining = {tuple(edge) for edge in DATA.edge_index[:, edge_mask].T.tolist()}
    single = sum((target, source) not in remaining for source, target in remaining)
    assert_binomial(single, len(remaining), 0.5)


def test_views_repeat_with_their_generator_and_differ_without() -> None:
    first, again, other = (masks(0.5, 0.5, seed) for seed in (0, 0, 1))
    for one, same, different in zip(first, again, other, strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, different)


def test_edge_rates_are_gcas_formula() -> None:
    rates = adaptive_rates(edge_unimportance(DATA, "degree"), 0.3)
    log_degree = [math.log(value) for value in degree(DATA).tolist()]
    scores = [log_degree[sink] for sink in DATA.edge_index[1].tolist()]
    top, mean = max(scores), sum(scores) / len(scores)
    expected = [min(0.3 * (top - score) / (top - mean), 0.7) for score in scores]
    assert rates.tolist() == pytest.approx(expected, rel=1e-4)


def test_feature_rates_are_gcas_formula_for_sparse_features() -> None:
    x = (torch.rand(2000, 30, generator=seeded()) < torch.linspace(0.02, 0.5, 30)).float()
    data = Data(x=x, edge_index=DATA.edge_index)
    central = degree(data)
    scores = [
        math.log(sum(c for used, c in zip(column, central.tolist(), strict=True) if used)) for column in x.T.tolist()
    ]
    top, mean = max(scores), sum(scores) / len(scores)
    expected = [min(0.2 * (top - score) / (top - mean), 0.7) for score in scores]
    assert adaptive_rates(feature_unimportance(data, "degree"), 0.2).tolist() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("centrality", CENTRALITIES)
def test_adaptive_rates_are_probabilities_around_the_rate(centrality: str) -> None:
    for weights in (edge_unimportance(DATA, centrality), feature_unimportance(DATA, centrality)):
        rates = adaptive_rates(weights, 0.4)
        assert (rates >= 0).all()
        assert (rates <= MAX_DROP_RATE).all()
        assert 0.25 < rates.mean() <= 0.4 + 1e-4


def test_adaptive_views_keep_the_important() -> None:
    rates = adaptive_rates(edge_unimportance(DATA, "degree"), 0.5)
    edge_mask, _ = masks(rates, 0.0)
    sinks = degree(DATA)[DATA.edge_index[1]]
    assert sinks[edge_mask].mean() > sinks.mean()


@pytest.mark.parametrize("centrality", CENTRALITIES)
@pytest.mark.parametrize("n", [6, 50, 300])
def test_nodes_of_equal_centrality_have_equal_rates(n: int, centrality: str) -> None:
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    data = Data(x=torch.ones(n, 3), edge_index=torch.cat([ring, ring.flip(0)], dim=1))
    for weights in (edge_unimportance(data, centrality), feature_unimportance(data, centrality)):
        assert adaptive_rates(weights, 0.3).tolist() == pytest.approx([0.3] * len(weights))


def test_unused_columns_count_as_the_least_used_one() -> None:
    x = torch.zeros(2000, 4)
    x[:500, 1], x[:900, 2] = 1, 1
    unused, least, most, _ = feature_unimportance(Data(x=x, edge_index=DATA.edge_index), "degree").tolist()
    assert unused == least > most


def test_dense_features_count_by_magnitude() -> None:
    data = Data(x=DATA.x * torch.linspace(0.1, 3, 400), edge_index=DATA.edge_index)
    rates = adaptive_rates(feature_unimportance(data, "degree"), 0.3)
    assert rates[:100].mean() > 2 * rates[-100:].mean()
