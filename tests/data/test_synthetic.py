"""Built-in graphs: the digits, and the contextual stochastic block model with the asked degree and homophily."""

from typing import Any

import pytest
import torch
from torch_geometric.utils import contains_self_loops, is_undirected

from progcl import InputError
from progcl.data.datasets import counts, load_dataset
from progcl.data.synthetic import csbm


def test_digits() -> None:
    data = load_dataset("digits")
    sizes = counts(data)
    assert (sizes.nodes, sizes.features, sizes.classes) == (1797, 64, 10)
    assert is_undirected(data.edge_index)
    assert torch.bincount(data.edge_index[0]).min() >= 10
    torch.testing.assert_close(data.x.sum(dim=1), torch.ones(1797))
    assert load_dataset("digits", normalize=False).x.max() == 1
    assert counts(load_dataset("digits", neighbors=4)).edges < sizes.edges


@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9])
def test_csbm_has_the_asked_degree_homophily_and_signal(homophily: float) -> None:
    data = csbm(nodes=5000, classes=4, degree=12, homophily=homophily, features=8, signal=3.0, seed=1)
    source, target = data.edge_index
    assert not contains_self_loops(data.edge_index)
    assert is_undirected(data.edge_index)
    assert len(source) / 5000 == pytest.approx(12, rel=0.03)
    assert (data.y[source] == data.y[target]).float().mean().item() == pytest.approx(homophily, abs=0.02)
    means = torch.stack([data.x[data.y == label].mean(dim=0) for label in range(4)])
    assert means.norm(dim=1).tolist() == pytest.approx([3.0] * 4, rel=0.1)


def test_csbm_repeats_with_its_seed() -> None:
    first, again, other = (csbm(nodes=50, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first.edge_index, again.edge_index)
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, other.x)


def test_csbm_of_uneven_classes_reaches_every_node() -> None:
    data = csbm(nodes=11, classes=4, degree=10, homophily=0.5, seed=0)
    assert set(data.edge_index.flatten().tolist()) == set(range(11))


@pytest.mark.parametrize(
    "options",
    [{"homophily": 1.5}, {"classes": 1}, {"nodes": 3}, {"degree": -1}, {"features": 0}, {"signal": -1}],
)
def test_csbm_refuses_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        csbm(**options)


def test_a_million_nodes_have_the_asked_degree() -> None:
    sizes = counts(csbm(nodes=1_000_000, degree=2, features=1))
    assert sizes.nodes == 1_000_000
    assert sizes.edges == pytest.approx(1_000_000, rel=0.01)


def test_signed_features_are_scaled_not_shifted() -> None:
    scaled, plain = (load_dataset("csbm", normalize=normalize).x for normalize in (True, False))
    torch.testing.assert_close(scaled.abs().sum(dim=1), torch.ones(2000))
    assert torch.equal(scaled.sign(), plain.sign())
