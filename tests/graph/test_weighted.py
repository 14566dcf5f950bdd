"""Operators of weighted and directed graphs against naive loops, PyG, and graphs with repeated edges."""

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_dense_adj

from progcl.data.edges import loop_weights
from progcl.data.prepare import prepare
from progcl.data.structure import _normalized_adjacency, log_degrees, walk
from progcl.data.synthetic import csbm
from progcl.graph import centrality
from progcl.graph.hop_features import HopFeatures, directed_means, stack_hops
from progcl.graph.hop_table import HopTable
from progcl.graph.sampled import SampledGraph
from progcl.graph.sampler import NeighborSampler
from progcl.graph.views import Graph, View
from progcl.graph.walks import RandomWalker
from progcl.methods.coles import loopless_adjacency
from progcl.nn.encoders import GCN, Sage

NODES = 12


def weighted_graph(seed: int = 0, counts: bool = False) -> Data:
    """A random graph with weights, the last node isolated; `counts` are whole numbers, also on average."""
    generator = torch.Generator().manual_seed(seed)
    edges, weight = torch.randint(0, NODES - 1, (2, 25), generator=generator), torch.rand(25, generator=generator)
    weight = 2.0 * torch.randint(1, 4, (25,), generator=generator) if counts else weight + 0.1
    return prepare(Data(x=torch.rand(NODES, 3, generator=generator), edge_index=edges, edge_weight=weight))


DATA = weighted_graph()


def naive_adjacency(data: Data, mean: bool = False) -> Tensor:
    """D̂^-½ (A + S) D̂^-½ or D̂⁻¹ (A + S) [N, N] by loops; S has the mean weight of a node's edges."""
    n = int(data.num_nodes)
    matrix = [[0.0] * n for _ in range(n)]
    for (source, target), weight in zip(data.edge_index.T.tolist(), data.edge_weight.tolist(), strict=True):
        matrix[target][source] = weight
    for row in matrix:
        own = [weight for weight in row if weight]
        row[matrix.index(row)] = sum(own) / len(own) if own else 1.0
    total = [sum(row) for row in matrix]
    scale = [[1 / total[i] if mean else (total[i] * total[j]) ** -0.5 for j in range(n)] for i in range(n)]
    return torch.tensor([[matrix[i][j] * scale[i][j] for j in range(n)] for i in range(n)])


@pytest.mark.parametrize("mean", [False, True])
def test_the_normalized_adjacency_is_its_definition(mean: bool) -> None:
    view = View(Graph(DATA))
    matrix = view.mean if mean else view.symmetric
    expected = naive_adjacency(DATA, mean)
    torch.testing.assert_close(matrix.csr.to_dense(), expected)
    torch.testing.assert_close(matrix.transpose.to_dense(), expected.T)
    if not mean:
        torch.testing.assert_close(_normalized_adjacency(DATA.edge_index, NODES, DATA.edge_weight).to_dense(), expected)


def test_the_normalized_adjacency_is_pygs_with_these_loops() -> None:
    loops = torch.arange(NODES)
    edges = torch.cat([DATA.edge_index, loops.expand(2, -1)], dim=1)
    weight = torch.cat([DATA.edge_weight, loop_weights(DATA.edge_index[1], DATA.edge_weight, NODES)])
    expected = to_dense_adj(*gcn_norm(edges, weight, NODES)[:1], edge_attr=gcn_norm(edges, weight, NODES)[1])[0]
    torch.testing.assert_close(View(Graph(DATA)).symmetric.csr.to_dense(), expected.T)


def test_dropped_and_added_edges_take_their_weights_with_them() -> None:
    graph, mask = Graph(DATA), torch.arange(DATA.num_edges) % 3 > 0
    loops = loop_weights(DATA.edge_index[1], DATA.edge_weight, NODES)
    dense = torch.zeros(NODES, NODES)
    dense[DATA.edge_index[1, mask], DATA.edge_index[0, mask]] = DATA.edge_weight[mask]
    dense += loops.diag()
    extra = torch.tensor([[11, 3], [2, 11]])
    for view, matrix in ((View(graph, mask), dense), (View(graph, mask, extra_edges=extra), dense.clone())):
        if view.extra_edges is not None:
            everything = torch.cat([DATA.edge_weight[mask], loops])
            matrix[extra[1], extra[0]] += everything.mean()
        torch.testing.assert_close(view.mean.csr.to_dense(), matrix / matrix.sum(dim=1, keepdim=True))


def test_repeated_edges_are_weights_where_there_are_no_loops() -> None:
    data = weighted_graph(counts=True)
    counts = data.edge_weight.long()
    edges = data.edge_index.repeat_interleave(counts, dim=1)
    weighted = loopless_adjacency(Graph(data), data.edge_index, data.edge_weight).csr.to_dense()
    torch.testing.assert_close(weighted, loopless_adjacency(Graph(data), edges).csr.to_dense())
    repeated = Data(edge_index=edges, num_nodes=NODES)
    torch.testing.assert_close(centrality.pagerank(data), centrality.pagerank(repeated))
    assert centrality.degree(data).tolist() == torch.bincount(edges[1], minlength=NODES).tolist()


def test_the_eigenvector_is_numpys() -> None:
    dense = to_dense_adj(DATA.edge_index, edge_attr=DATA.edge_weight, max_num_nodes=NODES)[0].double().numpy()
    leading = np.abs(np.linalg.eigh(dense)[1][:, -1])
    np.testing.assert_allclose(centrality.eigenvector(DATA).numpy(), leading, atol=1e-5)


def assert_frequencies(observed: Tensor, probability: Tensor) -> None:
    """A chi-square test of counts [n] at the level 1e-6."""
    expected = probability * observed.sum()
    assert not observed[expected == 0].any()
    used = expected > 0
    statistic = ((observed[used] - expected[used]) ** 2 / expected[used]).sum()
    assert float(statistic) < chi2.ppf(1 - 1e-6, int(used.sum()) - 1)


def neighbors_of(node: int) -> Tensor:
    """Probabilities of a step [N]."""
    mask = DATA.edge_index[1] == node
    probability = torch.zeros(NODES).index_add_(0, DATA.edge_index[0, mask], DATA.edge_weight[mask])
    return probability / probability.sum()


@pytest.mark.parametrize("node", [0, 4, 7])
def test_steps_and_samples_follow_the_weights(node: int) -> None:
    sampler = NeighborSampler(DATA.edge_index, NODES, (3000,), edge_weight=DATA.edge_weight)
    draws = torch.randint(2**62, (20000, 1), generator=torch.Generator().manual_seed(1))
    ends = sampler.walk(torch.full((20000,), node), draws)
    assert_frequencies(torch.bincount(ends, minlength=NODES), neighbors_of(node))
    batch = sampler.sample(torch.tensor([node]), torch.Generator().manual_seed(2))
    drawn = batch.n_id[batch.hops[0].column.long()]
    assert_frequencies(torch.bincount(drawn, minlength=NODES), neighbors_of(node))
    generators = map(np.random.default_rng, range(3000))
    walks = [walk(DATA.edge_index, NODES, 2, each, weight=DATA.edge_weight)[:, node] for each in generators]
    paths = torch.from_numpy(np.stack(walks, axis=1))
    assert set(paths[0].tolist()) == {int(DATA.edge_index[0].unique()[node])}
    assert_frequencies(torch.bincount(paths[1], minlength=NODES), neighbors_of(int(paths[0, 0])))


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 3.0)])
def test_second_order_steps_are_node2vecs_with_weights(p: float, q: float) -> None:
    """Probabilities in proportion to w_vx / p, w_vx or w_vx / q, by the distance of x to the node before v."""
    copies = 4000
    offset = NODES * torch.arange(copies)[:, None, None]
    edges = (DATA.edge_index + offset).transpose(0, 1).reshape(2, -1)
    walker = RandomWalker(edges, NODES * copies, p, q, edge_weight=DATA.edge_weight.repeat(copies))
    before, middle, after = (walker.walk(NODES * torch.arange(copies) + 4, 3, epoch=1) % NODES).T
    adjacent = to_dense_adj(DATA.edge_index, max_num_nodes=NODES)[0] > 0
    assert set(before.tolist()) == {4}
    assert_frequencies(torch.bincount(middle, minlength=NODES), neighbors_of(4))
    for node in middle.unique().tolist():
        factor = torch.where(adjacent[4], 1.0, 1 / q)
        factor[4] = 1 / p
        probability = neighbors_of(node) * factor
        assert_frequencies(torch.bincount(after[middle == node], minlength=NODES), probability / probability.sum())


@pytest.mark.parametrize("encoder", [GCN, Sage])
@pytest.mark.parametrize("replace", [True, False])
def test_sampled_layers_estimate_those_of_the_whole_graph(encoder: type[GCN], replace: bool) -> None:
    """All neighbors give the layer exactly, samples on average; the mean of GraphSAGE has a bias, and is left aside."""
    layer = encoder(3, 4, 1, "relu", torch.Generator().manual_seed(0))
    whole = Graph(DATA).embed(layer)
    batches = SampledGraph(DATA, [4], NODES, seed=0, replace=replace)
    torch.testing.assert_close(batches.embed(layer), whole)
    if encoder is not GCN:
        return
    drawn = [batches.draw(torch.arange(NODES), torch.arange(NODES), key) for key in range(800)]
    layer.activation = torch.nn.Identity()
    whole = Graph(DATA).embed(layer)
    estimates = torch.stack([layer(batch.full_view()).detach() for batch in drawn])
    error = estimates.std(dim=0) / 800**0.5
    assert ((estimates.mean(dim=0) - whole).abs() <= 5 * error + 1e-5).all()


def test_induced_edges_have_weights_over_their_nodes_mean() -> None:
    sampler = NeighborSampler(DATA.edge_index, NODES, fanouts=[], edge_weight=DATA.edge_weight)
    nodes = torch.tensor([0, 2, 3, 4, 7, 9])
    pairs, weight = sampler.weighted_edges(nodes)
    dense = to_dense_adj(DATA.edge_index, edge_attr=DATA.edge_weight, max_num_nodes=NODES)[0]
    relative = dense * ((dense > 0).sum(dim=1) / dense.sum(dim=1)).unsqueeze(1)
    assert weight is not None
    torch.testing.assert_close(weight, relative[nodes[pairs[0]], nodes[pairs[1]]])
    assert torch.equal(pairs, sampler.induced_edges(nodes))


def test_degrees_of_structural_features_are_sums_of_weights() -> None:
    plain, weighted = (log_degrees(DATA.edge_index, NODES, weight=w)[:, 0] for w in (None, DATA.edge_weight))
    strength = torch.zeros(NODES).index_add_(0, DATA.edge_index[1], DATA.edge_weight) / DATA.edge_weight.mean()
    torch.testing.assert_close(weighted, strength.log1p())
    assert not torch.equal(plain, weighted)


def directed_cycle(nodes: int = 300, seed: int = 0) -> Data:
    """Three classes; edges lead from class k to class k+1 alone. Features tell class 0 from the others."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % 3
    source = torch.arange(nodes).repeat_interleave(6)
    target = 3 * torch.randint(nodes // 3, source.shape, generator=generator) + (y[source] + 1) % 3
    x = torch.randn(nodes, 8, generator=generator)
    x[:, 0] += 2.0 * (y == 0)
    return Data(x=x, edge_index=torch.stack([source, target]), y=y)


def test_means_of_directed_graphs_are_those_of_loops() -> None:
    data = directed_cycle(30)
    data.edge_weight = torch.rand(data.num_edges, generator=torch.Generator().manual_seed(3)) + 0.1
    data = prepare(data, directed=True)
    sums = torch.zeros(2, 30, 8)
    totals = torch.zeros(2, 30)
    for (source, target), weight in zip(data.edge_index.T.tolist(), data.edge_forward.tolist(), strict=True):
        sums[0, source] += weight * data.x[target]
        totals[0, source] += weight
        sums[1, target] += weight * data.x[source]
        totals[1, target] += weight
    for matrix, total, count in zip(directed_means(data, 30), sums, totals, strict=True):
        torch.testing.assert_close(matrix.csr @ data.x, (total / count.unsqueeze(1)).nan_to_num())
        torch.testing.assert_close(matrix.transpose.to_dense(), matrix.csr.to_dense().T)
    out, back = (matrix.csr.to_dense() for matrix in directed_means(data, 30))
    both = View(Graph(data)).symmetric.csr.to_dense()
    blocks = [data.x, *(matrix @ data.x for matrix in (both, out, back, both @ both, out @ out, back @ back))]
    expected = torch.cat([torch.nn.functional.normalize(block, dim=1) for block in blocks], dim=1)
    torch.testing.assert_close(stack_hops(data.x, data, [0, 1, 2], directed=True), expected)
    table = HopTable(data, torch.eye(8), [0, 1, 2], directed=True)
    assert table.rows.shape == (30, 56)


def test_directed_features_of_an_undirected_graph_have_both_directions_alike() -> None:
    """So that a graph can be transformed by what was fitted to a directed one."""
    features = HopFeatures((0, 1), torch.eye(8), directed=True)
    data = prepare(csbm(nodes=30, features=8))
    rows = features.transform(data)
    assert rows.shape == (30, 32)
    assert torch.equal(rows[:, 16:24], rows[:, 24:])


def test_two_directions_separate_what_one_graph_cannot() -> None:
    """By the nearest class mean, classes 1 and 2 differ in whom they follow alone."""
    accuracy = {}
    for directed in (False, True):
        data = prepare(directed_cycle(), directed)
        rows = stack_hops(data.x, data, [0, 1, 2], directed)
        means = torch.stack([rows[data.y == kind].mean(dim=0) for kind in range(3)])
        accuracy[directed] = float((torch.cdist(rows, means).argmin(dim=1) == data.y)[data.y > 0].float().mean())
    assert accuracy[True] > 0.95
    assert accuracy[False] < 0.75
