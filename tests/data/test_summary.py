"""A graph in numbers, beside what networkx counts."""

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from progcl.data.prepare import prepare
from progcl.data.summary import describe, summarize
from progcl.data.synthetic import csbm

GRAPHS = {
    "club": networkx.karate_club_graph(),
    "tree": networkx.balanced_tree(2, 4),
    "even cycles": networkx.disjoint_union(networkx.cycle_graph(6), networkx.cycle_graph(8)),
    "odd cycle": networkx.disjoint_union(networkx.cycle_graph(6), networkx.cycle_graph(7)),
    "sparse": networkx.gnm_random_graph(60, 40, seed=0),
    "star": networkx.star_graph(150),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_counts_are_those_of_networkx(name: str) -> None:
    graph = GRAPHS[name]
    data = Data(edge_index=from_networkx(networkx.Graph(graph.edges)).edge_index, num_nodes=len(graph))
    data.edge_index = torch.tensor(list(graph.edges)).T
    summary = summarize(prepare(data), data.edge_index)
    degrees = [degree for _, degree in graph.degree]
    parts = [len(part) for part in networkx.connected_components(graph)]
    assert (summary.nodes, summary.edges) == (len(graph), graph.number_of_edges())
    assert summary.degree == pytest.approx(
        {"min": min(degrees), "median": np.median(degrees), "mean": np.mean(degrees), "max": max(degrees)}
    )
    assert summary.isolated == networkx.number_of_isolates(graph)
    assert summary.components == sum(part > 1 for part in parts)
    assert summary.largest == pytest.approx(max(parts) / len(graph))
    assert summary.is_bipartite == networkx.is_bipartite(graph)
    assert summary.is_directed
    assert (summary.features, summary.similarity, summary.classes, summary.homophily) == (0, None, 0, None)


def test_what_was_left_out_is_counted() -> None:
    edges = torch.tensor([[0, 0, 1, 1, 2, 3, 4], [1, 1, 2, 0, 0, 3, 5]])
    summary = summarize(prepare(Data(edge_index=edges, num_nodes=8)), edges)
    assert (summary.self_loops, summary.duplicates, summary.is_directed, summary.edges) == (1, 1, True, 4)
    both = torch.cat([edges[:, [0, 2]], edges[:, [0, 2]].flip(0)], dim=1)
    assert not summarize(prepare(Data(edge_index=both, num_nodes=8)), both).is_directed


def test_features_and_labels_are_described() -> None:
    data = csbm(nodes=400, classes=4, degree=12, homophily=0.9, features=8, signal=3)
    data.x[:, 0], data.y[:40] = 1.0, -1
    summary = summarize(prepare(data))
    assert (summary.features, summary.constant, summary.classes, summary.labeled) == (8, 1, 4, 360)
    assert summary.homophily == pytest.approx(0.87, abs=0.05)
    assert summary.similarity is not None
    assert summary.similarity[0] > summary.similarity[1] + 0.1
    rows = dict(describe(summary))
    assert rows["classes"] == "4; 40 nodes have none"
    assert rows["features"] == "8, 1 the same for all nodes"
    assert "hubs" not in rows
    star = torch.tensor(list(GRAPHS["star"].edges)).T
    assert dict(describe(summarize(prepare(Data(edge_index=star)))))["hubs"] == "one node is linked to 99% of all"
