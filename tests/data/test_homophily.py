"""Homophily and similarity along links against loops, and the remark on graphs that lack both."""

import math

import pytest
import torch
from torch_geometric.utils import homophily

from progcl.data.homophily import adjusted_homophily, describe_homophily, feature_similarity
from progcl.data.prepare import prepare
from progcl.data.synthetic import csbm

DATA = csbm(nodes=300, classes=3, degree=8, features=5, homophily=0.7)


def naive_adjusted(edges: list[tuple[int, int]], y: list[int]) -> float:
    edges = [(a, b) for a, b in edges if y[a] >= 0 and y[b] >= 0]
    inside = sum(y[a] == y[b] for a, b in edges) / len(edges)
    degrees = {kind: sum((y[a] == kind) + (y[b] == kind) for a, b in edges) for kind in set(y) if kind >= 0}
    chance = sum((degree / (2 * len(edges))) ** 2 for degree in degrees.values())
    return (inside - chance) / (1 - chance)


@pytest.mark.parametrize("unknown", [0, 100])
def test_adjusted_homophily_is_its_definition(unknown: int) -> None:
    y = DATA.y.clone()
    y[:unknown] = -1
    expected = naive_adjusted([(a, b) for a, b in DATA.edge_index.T.tolist()], y.tolist())
    assert adjusted_homophily(DATA.edge_index, y) == pytest.approx(expected, rel=1e-12)
    if not unknown:
        edge = homophily(DATA.edge_index, y, method="edge")
        assert expected < edge < 1


def test_without_labels_to_compare_there_is_none() -> None:
    assert adjusted_homophily(DATA.edge_index, torch.full((300,), -1)) is None
    assert adjusted_homophily(DATA.edge_index, torch.zeros(300, dtype=torch.long)) is None


def test_similarity_along_links_is_the_mean_cosine() -> None:
    linked, random, error = feature_similarity(DATA.edge_index, DATA.x, pairs=20_000)
    rows = (DATA.x - DATA.x.mean(dim=0)).tolist()

    def cosine(a: list[float], b: list[float]) -> float:
        return sum(u * v for u, v in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))

    pairs = DATA.edge_index.T.tolist()
    assert linked == pytest.approx(sum(cosine(rows[a], rows[b]) for a, b in pairs) / len(pairs), abs=0.03)
    assert random == pytest.approx(0, abs=0.03)
    assert 0 < error < 0.01


def test_only_graphs_without_homophily_are_remarked_on() -> None:
    apart = csbm(nodes=300, classes=3, degree=8, features=5, homophily=0.1)
    assert describe_homophily(prepare(DATA)) == []
    assert "adjusted homophily -0." in describe_homophily(prepare(apart))[0]
    assert any("links hardly tell classes" in remark for remark in prepare(apart).remarks)
    for data, said in ((DATA, False), (apart, True)):
        del data.y
        assert bool(describe_homophily(prepare(data))) == said
