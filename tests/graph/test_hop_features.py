"""Features of several hops against PyG's propagation, and their reductions against numpy's."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize
from torch_geometric.nn import SGConv

from progcl.config.output import HopsConfig
from progcl.data.synthetic import csbm
from progcl.graph.hop_features import MAX_GRAM_COLUMNS, HopFeatures, choose_rank, project, stack_hops, svd_directions

DATA = csbm(nodes=150, classes=3, degree=8, features=12, signal=3)


def test_blocks_are_pygs_propagation_with_unit_rows() -> None:
    rows = stack_hops(DATA.x, DATA, hops=[0, 1, 3])
    for block, hop in enumerate([0, 1, 3]):
        layer = SGConv(12, 12, K=hop, bias=False) if hop else None
        if layer is not None:
            layer.lin.weight.data.copy_(torch.eye(12))
        expected = DATA.x if layer is None else layer(DATA.x, DATA.edge_index).detach()
        torch.testing.assert_close(rows[:, 12 * block : 12 * (block + 1)], normalize(expected, dim=1))


@pytest.mark.parametrize("wide", [MAX_GRAM_COLUMNS, 5], ids=["by products", "by random projections"])
def test_directions_are_numpys_singular_vectors(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.graph.hop_features.MAX_GRAM_COLUMNS", wide)
    monkeypatch.setattr("progcl.graph.hop_features.ROWS_PER_CHUNK", 40)
    directions = svd_directions(DATA.x, 4)
    unit = normalize(DATA.x, dim=1)
    _, _, vectors = np.linalg.svd(unit.numpy(), full_matrices=False)
    np.testing.assert_allclose(np.abs(vectors[:4] @ directions.numpy()), np.eye(4), atol=2e-3)
    torch.testing.assert_close(project(DATA.x, directions), unit @ directions)
    assert torch.equal(svd_directions(DATA.x, 12), torch.eye(12))


def test_hop_features_are_the_principal_components_of_all_hops() -> None:
    config = HopsConfig(powers=[0, 1, 2], rank=8, dim=6)
    stacked = stack_hops(project(DATA.x, svd_directions(DATA.x, 8)), DATA, [0, 1, 2])
    assert torch.equal(HopFeatures.fit(DATA, HopsConfig(powers=[0, 1, 2], rank=8, dim=None)).transform(DATA), stacked)
    centered = (stacked - stacked.mean(dim=0)).numpy()
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    reduced = HopFeatures.fit(DATA, config).transform(DATA).numpy()
    assert reduced.shape == (150, 6)
    np.testing.assert_allclose(np.abs(left[:, :6].T @ reduced), np.diag(values[:6]), atol=1e-3)


def test_another_graph_is_reduced_as_the_fitted_one_was() -> None:
    features = HopFeatures.fit(DATA, HopsConfig(rank=8, dim=6))
    half = DATA.subgraph(torch.arange(75))
    stacked = stack_hops(project(half.x, features.directions), half, features.hops)
    assert features.pca is not None
    expected = (stacked.numpy() - features.pca.mean_) @ features.pca.components_.T
    np.testing.assert_allclose(features.transform(half).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(("nodes", "rank"), [(1000, 512), (100_000, 512), (300_000, 178), (10**7, 64)])
def test_the_rank_falls_with_the_size_of_the_graph(nodes: int, rank: int) -> None:
    assert choose_rank(nodes, 5) == rank
