"""FastGCN's sampled layers: probabilities and estimates from naive loops, and batches of them."""

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl import InputError
from progcl.data.synthetic import csbm
from progcl.graph.layer_sampler import LayerBatches, LayerSampler
from progcl.graph.sampled import NodeFeatures
from progcl.graph.views import Graph

DATA = csbm(nodes=30, classes=2, degree=6, features=5, signal=1)


def naive_adjacency(data: Data) -> Tensor:
    """D̂^-½ Â D̂^-½ [N, N], one edge at a time."""
    nodes = int(data.num_nodes)
    edges = {(u, v) for u, v in data.edge_index.T.tolist() if u != v} | {(v, v) for v in range(nodes)}
    degree = [sum(target == node for _, target in edges) for node in range(nodes)]
    matrix = torch.zeros(nodes, nodes, dtype=torch.double)
    for source, target in edges:
        matrix[target, source] = 1 / (degree[source] * degree[target]) ** 0.5
    return matrix


def make(samples: int, nodes: Tensor | None = None) -> LayerSampler:
    return LayerSampler(Graph(DATA).walker, samples, nodes)


def test_nodes_are_drawn_by_the_norm_of_their_column() -> None:
    columns = naive_adjacency(DATA).square().sum(dim=0)
    torch.testing.assert_close(make(4).probability, columns / columns.sum())
    some = torch.tensor([2, 3, 11])
    restricted = make(4, some)
    torch.testing.assert_close(restricted.probability[some], columns[some] / columns[some].sum())
    assert restricted.probability.count_nonzero() == 3
    sources = restricted.sample(torch.arange(30), torch.Generator().manual_seed(0)).sources
    assert torch.isin(sources, some).all()


def test_an_estimate_is_its_definition() -> None:
    """1/t Σ_j P(v, u_j) / q(u_j), one draw at a time, a node that is drawn twice counting twice."""
    sampler, targets = make(25), torch.tensor([4, 9, 2])
    sample = sampler.sample(targets, torch.Generator().manual_seed(3))
    uniform = torch.rand(25, generator=torch.Generator().manual_seed(3), dtype=torch.double)
    adjacency, probability = naive_adjacency(DATA), sampler.probability
    expected = torch.zeros(3, 30, dtype=torch.double)
    for number in uniform.tolist():
        node, end = 0, float(probability[0])
        while end <= number:
            node += 1
            end += float(probability[node])
        for row, target in enumerate(targets.tolist()):
            expected[row, node] += adjacency[target, node] / (25 * probability[node])
    estimate = torch.zeros(3, 30)
    estimate[:, sample.sources] = sample.matrix.csr.to_dense()
    torch.testing.assert_close(estimate, expected.float())
    torch.testing.assert_close(sample.matrix.transpose.to_dense().T, sample.matrix.csr.to_dense())


def test_estimates_are_unbiased() -> None:
    """An estimate of 200,000 draws is the mean of as many of one draw: within five standard errors of the full sum."""
    number, targets, x = 200_000, torch.arange(0, 30, 4), DATA.x.double()
    sampler, adjacency = make(number), naive_adjacency(DATA)
    sample = sampler.sample(targets, torch.Generator().manual_seed(0))
    estimate = sample.matrix.csr.to_dense().double() @ x[sample.sources]
    full = torch.zeros(len(targets), 5, dtype=torch.double)
    square = torch.zeros_like(full)  # second moment of the estimate of one draw
    for row, target in enumerate(targets.tolist()):
        for node in range(30):
            full[row] += adjacency[target, node] * x[node]
            square[row] += (adjacency[target, node] * x[node]) ** 2 / sampler.probability[node]
    error = (square - full.square()).sqrt() / number**0.5
    assert ((estimate - full).abs() < 5 * error).all()
    assert ((estimate - full).abs() > 0.05 * error).any()


@pytest.mark.parametrize("sparse", [False, True])
def test_batches_cover_the_seeds_and_depend_on_the_epoch(sparse: bool) -> None:
    data = Data(x=DATA.x * (DATA.x > 2.0) if sparse else DATA.x, edge_index=DATA.edge_index)
    seeds, features = torch.arange(3, 24), NodeFeatures(data)
    assert features.is_sparse == sparse
    loader = LayerBatches(make(12), features, 2, seeds, size=8, seed=1)
    first, again, other = (list(loader.batches(epoch)) for epoch in (1, 1, 2))
    assert len(first) == loader.steps == 3
    assert torch.equal(torch.cat([batch.seeds for batch in first]).sort().values, seeds)
    for one, two in zip(first, again, strict=True):
        assert all(torch.equal(a.sources, b.sources) for a, b in zip(one.samples, two.samples, strict=True))
    assert not torch.equal(first[0].seeds, other[0].seeds)
    inner, outer = first[0].samples
    assert outer.matrix.csr.shape == (len(first[0].seeds), len(outer.sources))
    assert inner.matrix.csr.shape == (len(outer.sources), len(inner.sources))
    weight = torch.eye(5)
    expected = inner.matrix.csr.to_dense() @ data.x[inner.sources]
    torch.testing.assert_close(first[0].layer_input(0, None, last=False).propagate(weight), expected)


def test_no_samples_are_refused() -> None:
    with pytest.raises(InputError, match="`samples` needs to be"):
        make(0)
