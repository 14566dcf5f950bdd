"""Edges of personalized PageRank against PyG's diffusion, and against the full matrix."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import GDC
from torch_geometric.utils import to_undirected

from progcl.data.synthetic import csbm
from progcl.graph.diffusion import ppr_edges_above, top_ppr_edges
from progcl.graph.views import Graph, View


def dense(edge_index: torch.Tensor, weight: torch.Tensor, nodes: int) -> torch.Tensor:
    matrix = torch.zeros(nodes, nodes, dtype=torch.float64)
    matrix[edge_index[1], edge_index[0]] = weight.double()
    return matrix


@pytest.mark.parametrize("teleport", [0.05, 0.2, 0.9, 1.0])
def test_all_entries_are_pygs_diffusion(teleport: float) -> None:
    data = csbm(nodes=120, degree=4, seed=1)
    ours = dense(*top_ppr_edges(data, teleport, 120), 120)
    loops = torch.arange(120).repeat(2, 1)
    edges = to_undirected(torch.cat([data.edge_index, loops], dim=1))
    gdc = GDC(self_loop_weight=None)
    edges, weight = gdc.transition_matrix(edges, torch.ones(edges.size(1)), 120, "sym")
    expected = gdc.diffusion_matrix_exact(edges, weight, 120, method="ppr", alpha=teleport)
    torch.testing.assert_close(ours, expected.double(), rtol=0, atol=3e-5)


def test_a_node_keeps_its_largest_entries_and_the_sum_of_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    data = csbm(nodes=90, degree=4, seed=2)
    full = dense(*top_ppr_edges(data, 0.1, 90), 90)
    monkeypatch.setattr("progcl.graph.diffusion.DIFFUSION_ELEMENTS", 90 * 7)  # several blocks
    edges, weight = top_ppr_edges(data, 0.1, 5)
    sparsified = dense(edges, weight, 90)
    assert torch.equal((sparsified > 0).sum(dim=1), (full > 0).sum(dim=1).clamp_max(5))
    torch.testing.assert_close(sparsified.sum(dim=1), full.sum(dim=1), rtol=1e-4, atol=0)
    threshold = full.topk(5, dim=1).values[:, -1:]
    assert ((sparsified > 0) == (full > 0) & (full >= threshold - 1e-7)).all()


def test_entries_above_a_threshold_are_pygs_thresholded_diffusion(monkeypatch: pytest.MonkeyPatch) -> None:
    data = csbm(nodes=90, degree=4, seed=2)
    monkeypatch.setattr("progcl.graph.diffusion.DIFFUSION_ELEMENTS", 90 * 7)  # several blocks
    ours = dense(*ppr_edges_above(data, 0.1, 0.01), 90)
    loops = torch.arange(90).repeat(2, 1)
    transformed = GDC(
        self_loop_weight=None,
        normalization_in="sym",
        normalization_out="row",
        diffusion_kwargs={"method": "ppr", "alpha": 0.1},
        sparsification_kwargs={"method": "threshold", "eps": 0.01},
    )(Data(x=data.x, edge_index=to_undirected(torch.cat([data.edge_index, loops], dim=1))))
    expected = dense(transformed.edge_index.flip(0), transformed.edge_attr, 90)
    assert 500 < (ours > 0).sum() < 90**2 // 2
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.sum(dim=1), torch.ones(90, dtype=torch.float64), rtol=0, atol=1e-5)


def test_isolated_nodes_and_directed_edges() -> None:
    data = Data(x=torch.eye(4), edge_index=torch.tensor([[0], [1]]), num_nodes=4)
    matrix = dense(*top_ppr_edges(data, 0.3, 4), 4)
    torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-5)
    assert matrix[3].tolist() == pytest.approx([0, 0, 0, 1], abs=1e-5)


def test_views_of_weighted_and_extra_edges() -> None:
    data = csbm(nodes=40, degree=4, seed=3)
    graph = Graph(data)
    edges, weight = top_ppr_edges(data, 0.1, 6)
    adjacency = View(graph.with_edges(edges, weight)).symmetric
    torch.testing.assert_close(adjacency.csr.to_dense().double(), dense(edges, weight, 40))
    torch.testing.assert_close(adjacency.transpose.to_dense(), adjacency.csr.to_dense().T)
    mask = torch.rand(edges.size(1), generator=torch.Generator().manual_seed(0)) < 0.5
    some = View(graph.with_edges(edges, weight), mask).symmetric.csr.to_dense()
    torch.testing.assert_close(some.double(), dense(edges[:, mask], weight[mask], 40))
    added = torch.tensor([[0, 5, 7], [9, 9, 3]])
    extended = View(graph, extra_edges=added).symmetric
    longer = Data(x=data.x, edge_index=torch.cat([data.edge_index, added], dim=1))
    expected = View(Graph(longer)).symmetric
    torch.testing.assert_close(extended.csr.to_dense(), expected.csr.to_dense())
    torch.testing.assert_close(extended.transpose.to_dense(), expected.transpose.to_dense())
