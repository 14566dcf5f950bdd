"""Edges in both directions with their weights: duplicates, directions, zeros, and the edges of directed graphs."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.edges import list_arcs, loop_weights, relative_weights
from progcl.data.prepare import fingerprint, prepare


def graph(edges: dict[tuple[int, int], float] | list[tuple[int, int, float]], directed: bool = False) -> Data:
    rows = [(*pair, weight) for pair, weight in edges.items()] if isinstance(edges, dict) else edges
    index = torch.tensor([[a for a, _, _ in rows], [b for _, b, _ in rows]])
    data = Data(x=torch.rand(5, 2), edge_index=index, edge_weight=torch.tensor([float(w) for *_, w in rows]))
    return prepare(data, directed)


def weights(data: Data, name: str = "edge_weight") -> dict[tuple[int, int], float]:
    pairs = map(tuple, data.edge_index.T.tolist())
    return dict(zip(pairs, data[name].tolist(), strict=True))


def test_both_directions_of_an_edge_share_its_weight() -> None:
    data = graph({(0, 1): 2, (3, 2): 0.5})
    assert weights(data) == {(0, 1): 2, (1, 0): 2, (2, 3): 0.5, (3, 2): 0.5}
    assert "edges have weights from 0.5 to 2" in data.remarks


def test_two_weights_of_an_edge_are_averaged_and_duplicates_added() -> None:
    data = graph([(0, 1, 2), (1, 0, 6), (1, 2, 1), (1, 2, 4), (3, 4, 7), (4, 3, 7)])
    once = {pair: weight for pair, weight in weights(data).items() if pair[0] < pair[1]}
    assert once == {(0, 1): 4, (1, 2): 5, (3, 4): 7}
    assert "1 duplicate edge joined with others: their weights are added" in data.remarks
    assert "the two directions of 1 edge have different weights: their mean is used" in data.remarks


def test_edges_of_weight_zero_and_self_loops_are_left_out() -> None:
    data = graph([(0, 1, 2), (1, 2, 0), (2, 2, 9), (2, 3, 1), (2, 0, 0)])
    assert set(weights(data)) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert "2 edges of weight 0 left out" in data.remarks
    with pytest.raises(InputError, match="the graph has no edges"):
        graph({(0, 1): 0, (1, 2): 0})


def test_equal_weights_are_left_out() -> None:
    data = graph({(0, 1): 0.1, (1, 2): 0.1, (2, 0): 0.1})
    assert data.get("edge_weight") is None
    assert "all edges have the same weight: they are used without" in data.remarks


def test_a_few_heavy_edges_are_remarked_on() -> None:
    data = graph({(0, 1): 1, (1, 2): 1, (2, 3): 1, (3, 4): 5000})
    assert any("5,000 times the median" in remark for remark in data.remarks)


def test_a_prepared_graph_passes_again_unchanged() -> None:
    for directed in (False, True):
        once = graph([(0, 1, 0.3), (1, 0, 6), (1, 2, 1 / 3), (1, 2, 4), (3, 4, 7)], directed)
        twice = prepare(once, directed)
        for name in ("edge_index", "edge_weight", *(["edge_forward"] if directed else [])):
            assert torch.equal(once[name], twice[name]), name
        assert once.remarks[: len(twice.remarks)] == twice.remarks
        assert fingerprint(once) == fingerprint(twice)


def test_another_weight_is_another_graph() -> None:
    torch.manual_seed(0)
    first = graph({(0, 1): 1, (1, 2): 2})
    second = first.clone()
    second.edge_weight[1] += 1
    assert fingerprint(first) != fingerprint(second)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.tensor([1.0, -1.0]), "edge number 1 has weight -1: a weight is negative"),
        (torch.tensor([1.0, float("nan")]), "a weight is missing"),
        (torch.tensor([float("inf"), 1.0]), "a weight is too large"),
        (torch.tensor([1.0]), "there are 2 edges"),
        (torch.ones(2, 3), "there are 2 edges"),
    ],
)
def test_wrong_weights_are_refused(weight: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), edge_weight=weight))


def test_a_directed_graph_keeps_its_edges() -> None:
    edges: dict[tuple[int, int], float] = {(0, 1): 2, (1, 0): 6, (2, 1): 3, (3, 4): 1}
    data = graph(edges, directed=True)
    index, weight = list_arcs(data)
    assert dict(zip(map(tuple, index.T.tolist()), weight.tolist(), strict=True)) == edges
    assert weights(data)[1, 0] == weights(data)[0, 1] == 4
    assert weights(data, "edge_forward") == {**dict.fromkeys(weights(data), 0.0), **edges}
    assert "features of several hops are taken also along the edges and against them" in data.remarks
    plain = prepare(Data(x=data.x, edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]])), directed=True)
    assert plain.get("edge_weight") is None
    assert plain.edge_forward.tolist() == [1, 1, 1, 0]


def test_an_undirected_graph_says_that_directions_change_nothing() -> None:
    data = graph({(0, 1): 2, (1, 0): 2, (1, 2): 3, (2, 1): 3}, directed=True)
    assert data.get("edge_forward") is None
    assert any("changes nothing" in remark for remark in data.remarks)


def test_attributes_of_edges_go_with_their_nodes() -> None:
    part: Any = graph({(0, 1): 2, (1, 2): 3, (3, 4): 1}, directed=True).subgraph(torch.tensor([0, 1, 2]))
    assert part.edge_weight.tolist() == [2, 2, 3, 3]
    assert part.edge_forward.tolist() == [2, 0, 3, 0]


def test_loops_weigh_as_much_as_an_average_edge_of_their_node() -> None:
    row, weight = torch.tensor([0, 0, 2]), torch.tensor([1.0, 3.0, 5.0])
    assert loop_weights(row, weight, 3).tolist() == [2, 1, 5]
    assert relative_weights(row, weight, 3).tolist() == [0.5, 1.5, 1]


def test_directions_of_other_edges_are_refused() -> None:
    data = prepare(Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 2]])), directed=True)
    data.edge_forward = data.edge_forward[:-1]
    with pytest.raises(InputError, match="`edge_forward` does not belong to these edges"):
        prepare(data, directed=True)
