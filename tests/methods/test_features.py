"""Methods without training."""

import pytest
import torch
from torch.nn.functional import normalize

from progcl import fit, load_config
from progcl.data.structure import walk_vectors
from progcl.data.synthetic import csbm
from progcl.graph.hop_features import stack_hops
from progcl.graph.views import Graph, View
from progcl.methods.features import propagated, raw

DATA = csbm(nodes=60, features=20)


def test_raw_features_are_unchanged() -> None:
    assert raw(DATA) is DATA.x


def test_propagated_features_are_two_steps_of_message_passing() -> None:
    dense = View(Graph(DATA)).symmetric.csr.to_dense()
    torch.testing.assert_close(propagated(DATA), dense @ dense @ DATA.x)


def test_wide_features_are_reduced_first() -> None:
    reduced = propagated(DATA, rank=5, hops=0)
    assert reduced.shape == (60, 5)
    best = torch.linalg.svdvals(DATA.x)[:5]
    torch.testing.assert_close(torch.linalg.svdvals(reduced), best, rtol=1e-3, atol=1e-3)


def test_methods_without_training_are_their_definitions() -> None:
    runs = {}
    for name in ("raw", "propagated", "hops", "spectral", "walk-vectors", "random-init"):
        overrides = {"method.name": name, "hops.dim": None, "probe.protocol": "none", "encoder.hidden": 7}
        result = fit(load_config("csbm", overrides), data=DATA)
        assert result.losses == []
        runs[name] = result.embeddings
    torch.testing.assert_close(runs["raw"], DATA.x)
    torch.testing.assert_close(runs["propagated"], propagated(DATA))
    torch.testing.assert_close(runs["hops"], stack_hops(normalize(DATA.x, dim=1), DATA, [0, 1, 2, 4, 8]))
    assert runs["random-init"].shape == (60, 7)
    torch.testing.assert_close(runs["walk-vectors"], walk_vectors(DATA.edge_index, 60, 128))
    dense = View(Graph(DATA)).symmetric.csr.to_dense().double()
    walks = sum(torch.linalg.matrix_power(dense, power) for power in range(1, 11)) / 10
    assert isinstance(walks, torch.Tensor)
    values, vectors = torch.linalg.eigh(walks)
    torch.testing.assert_close(
        normalize(runs["spectral"].double() @ runs["spectral"].double().T, dim=1),
        normalize(normalize(vectors * values, dim=1) @ normalize(vectors * values, dim=1).T, dim=1),
        rtol=0,
        atol=1e-3,
    )


@pytest.mark.parametrize("name", ["raw", "propagated", "hops", "random-init"])
def test_unseen_nodes_are_embedded_by_what_training_nodes_fitted(name: str) -> None:
    options = {"method.name": name, "hops.dim": 9, "data.inductive": True, "probe.nodes": "heldout"}
    result = fit(load_config("csbm", {**options, "data.nodes": 200, "probe.splits": 1}))
    assert len(result.embeddings) == 200
    assert result.score is not None
