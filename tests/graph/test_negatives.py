"""Pairs without an edge: all of them, equally often, and nothing else."""

import pytest
import torch

from progcl import InputError
from progcl.graph.negatives import NonEdges


def test_every_pair_without_an_edge_is_drawn_equally_often() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 3, 2, 2], [1, 0, 2, 1, 2, 3, 2]])  # with a self-loop
    taken = {(int(i), int(j)) for i, j in edges.T} | {(i, i) for i in range(5)}
    non_edges = NonEdges(edges, num_nodes=5)
    assert non_edges.count == 25 - len(taken)
    pairs, counts = non_edges.sample(14_000, torch.Generator().manual_seed(0)).unique(dim=1, return_counts=True)
    assert {(int(i), int(j)) for i, j in pairs.T} == {(i, j) for i in range(5) for j in range(5)} - taken
    assert (counts / 14_000 * non_edges.count - 1).abs().max() < 0.15


def test_a_graph_without_such_pairs_is_refused() -> None:
    with pytest.raises(InputError, match="an edge joins any two nodes"):
        NonEdges(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
