"""A sampled batch computes what the full graph does, and its sampling does not depend on how it is sharded."""

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from progcl.data.synthetic import csbm
from progcl.graph.sampled import SampledGraph, SampledView, sum_bags
from progcl.graph.views import Graph, View
from progcl.nn.encoders import GCN, MLP, Sage

DENSE = csbm(nodes=120, features=7, degree=6, seed=0)
SPARSE = Data(x=(torch.arange(120 * 30).view(120, 30) % 17 == 0).float(), edge_index=DENSE.edge_index)
ALL = 1000  # more than any node has neighbors


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_encoder(kind: type[MLP], data: Data, layers: int = 3) -> MLP:
    encoder = kind(data.x.size(1), 5, layers, "elu", seeded())
    for layer in encoder.layers:
        assert isinstance(layer, nn.Linear)
        nn.init.normal_(layer.bias, generator=seeded(1))
    return encoder


def with_gradient(out: Tensor, encoder: MLP) -> list[Tensor]:
    target = torch.randn(out.shape, generator=seeded(2))
    return [out, *torch.autograd.grad((out * target).sum(), list(encoder.parameters()))]


@pytest.mark.parametrize("data", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", [GCN, Sage, MLP])
def test_with_all_neighbors_a_batch_equals_the_full_graph(kind: type[MLP], data: Data) -> None:
    encoder = make_encoder(kind, data)
    graph = SampledGraph(data, (ALL, ALL, ALL), size=50, seed=0, replace=False)
    for batch in graph.batches(epoch=1):
        expected = with_gradient(encoder(View(Graph(data)))[batch.seeds], encoder)
        for one, other in zip(expected, with_gradient(encoder(SampledView(batch)), encoder), strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("data", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", [GCN, Sage, MLP])
def test_layerwise_embeddings_equal_those_of_the_full_graph(
    kind: type[MLP], data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("progcl.graph.sampled.NEIGHBORS_PER_CHUNK", 100)  # several chunks
    encoder = make_encoder(kind, data)
    out = SampledGraph(data, (2, 2, 2), size=50, seed=0).embed(encoder)
    torch.testing.assert_close(out, encoder(View(Graph(data))), atol=1e-5, rtol=1e-4)


def test_sums_of_bags_are_a_product_with_a_matrix_of_weights() -> None:
    table = torch.randn(4, 6, generator=seeded(), dtype=torch.double).T.requires_grad_()  # not contiguous
    index, rowptr = torch.tensor([5, 0, 5, 2, 2, 2]), torch.tensor([0, 2, 2, 5, 6])
    weight = torch.rand(6, generator=seeded(1), dtype=torch.double)
    matrix = torch.zeros(4, 6, dtype=torch.double)
    for position, bag in enumerate([0, 0, 2, 2, 2, 3]):
        matrix[bag, index[position]] += weight[position]
    torch.testing.assert_close(sum_bags(table, index, rowptr, weight), matrix @ table)
    assert torch.autograd.gradcheck(lambda table: sum_bags(table, index, rowptr, weight), table)


def test_a_sage_layer_is_its_formula() -> None:
    encoder = make_encoder(Sage, DENSE, layers=1)
    (layer,) = encoder.layers
    assert isinstance(layer, nn.Linear)
    expected = torch.empty(120, 5)
    for node in range(120):
        neighborhood = [node, *DENSE.edge_index[0][DENSE.edge_index[1] == node].tolist()]
        both = torch.cat([DENSE.x[neighborhood].mean(dim=0), DENSE.x[node]])
        expected[node] = nn.functional.elu(layer.weight @ both + layer.bias)
    torch.testing.assert_close(encoder(View(Graph(DENSE))), expected)


@pytest.mark.parametrize("replace", [True, False])
def test_a_sampled_gcn_layer_is_unbiased(replace: bool) -> None:
    encoder = GCN(7, 5, 1, "relu", seeded())
    encoder.activation = nn.Identity()
    graph = SampledGraph(DENSE, (3,), size=120, seed=0, replace=replace)
    outs = torch.stack([encoder(SampledView(batch)).detach() for epoch in range(600) for batch in graph.batches(epoch)])
    error = (outs.mean(dim=0) - encoder(View(Graph(DENSE)))).abs() / (outs.std(dim=0) / 600**0.5).clamp_min(1e-6)
    assert error.max() < 4.5
    assert outs.std(dim=0).max() > 0.01


def test_views_drop_edges_and_columns_at_their_rates() -> None:
    graph = SampledGraph(DENSE, (ALL,), size=120, seed=0, replace=False)
    (batch,) = graph.batches(1)
    views = [batch.view(0.3, 0.5, seeded(seed)) for seed in range(300)]
    assert sum(float(view.edge_masks[0].float().mean()) for view in views if view.edge_masks) / 300 == pytest.approx(
        0.7, abs=0.01
    )
    shares = [view.feature_mask.float().mean() for view in views if view.feature_mask is not None]
    assert float(sum(shares) / 300) == pytest.approx(0.5, abs=0.03)
    unchanged, emptied = batch.view(0.0, 0.0, seeded()), batch.view(1.0, 1.0, seeded())
    encoder = make_encoder(Sage, DENSE, layers=1)
    torch.testing.assert_close(encoder(unchanged), encoder(SampledView(batch)))
    isolated = Data(x=torch.zeros(120, 7), edge_index=DENSE.edge_index[:, :0])
    torch.testing.assert_close(encoder(emptied), encoder(View(Graph(isolated)))[batch.seeds])


def test_shards_of_a_batch_sample_what_the_full_batch_does() -> None:
    encoder = make_encoder(Sage, DENSE)
    unsplit = SampledGraph(DENSE, (3, 2, 4), size=50, seed=5)
    sharded = [SampledGraph(DENSE, (3, 2, 4), size=50, seed=5, shard=(number, 3)) for number in range(3)]
    for full, *shards in zip(unsplit.batches(2), *(graph.batches(2) for graph in sharded), strict=True):
        assert all(torch.equal(shard.seeds, full.seeds) for shard in shards)
        outs = [encoder(shard.view(0.4, 0.3, seeded(1))) for shard in shards]
        torch.testing.assert_close(torch.cat(outs), encoder(full.view(0.4, 0.3, seeded(1))))


@pytest.mark.parametrize("data", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("replace", [True, False])
def test_a_process_may_get_no_node_of_a_small_batch(data: Data, replace: bool) -> None:
    encoder = make_encoder(Sage, data)
    sizes = []
    for number in range(4):
        graph = SampledGraph(data, (2, 2, 2), size=118, seed=0, replace=replace, shard=(number, 4))
        *_, last = graph.batches(1)
        sizes.append(len(encoder(last.view(0.2, 0.2, seeded()))))
    assert sorted(sizes) == [0, 0, 1, 1]


def test_fewer_than_two_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 nodes"):
        SampledGraph(DENSE, (2,), size=50, seed=0, nodes=torch.tensor([3]))


def test_an_epoch_has_every_node_in_shuffled_or_fixed_batches() -> None:
    shuffled, fixed = (SampledGraph(DENSE, (2,), size=50, seed=0, fixed=fixed) for fixed in (False, True))
    for graph in (shuffled, fixed):
        epochs = [[batch.seeds for batch in graph.batches(epoch)] for epoch in (1, 2, 1)]
        assert [len(seeds) for seeds in epochs[0]] == [50, 50, 20]
        assert torch.equal(torch.cat(epochs[1]).sort().values, torch.arange(120))
        assert all(torch.equal(a, b) for a, b in zip(epochs[0], epochs[2], strict=True))
        assert torch.equal(epochs[0][0], epochs[1][0]) == (graph is fixed)
    first, second = (next(iter(fixed.batches(epoch))).subgraph for epoch in (1, 2))
    assert not torch.equal(first.hops[0].column, second.hops[0].column)


def test_steps_can_be_fewer_and_a_batch_of_one_node_is_left_out() -> None:
    assert SampledGraph(DENSE, (2,), size=50, seed=0, steps=2).steps == 2
    assert SampledGraph(DENSE, (2,), size=17, seed=0).steps == 7  # 120 = 7·17 + 1
    assert SampledGraph(DENSE, (2,), size=17, seed=0, steps=100).steps == 7


def test_batches_are_restricted_to_the_given_nodes() -> None:
    inside = torch.arange(0, 120, 2)
    graph = SampledGraph(DENSE, (ALL, ALL), size=30, seed=0, replace=False, nodes=inside)
    for batch in graph.batches(1):
        assert (batch.subgraph.n_id % 2 == 0).all()
    encoder = make_encoder(Sage, DENSE, layers=2)
    expected = encoder(View(Graph(DENSE.subgraph(inside))))
    batch = next(iter(graph.batches(1)))
    torch.testing.assert_close(encoder(SampledView(batch)), expected[batch.seeds // 2], atol=1e-5, rtol=1e-4)


def test_scaled_rows_are_those_of_scaled_features() -> None:
    encoder = make_encoder(Sage, DENSE)
    scale = torch.rand(120, generator=seeded(3)) + 0.5
    lazy = Data(x=DENSE.x, edge_index=DENSE.edge_index, mapped=True, row_scale=scale)
    eager = Data(x=DENSE.x * scale[:, None], edge_index=DENSE.edge_index)
    outs = [next(iter(SampledGraph(data, (2, 2, 2), 50, 0).batches(1))) for data in (lazy, eager)]
    torch.testing.assert_close(encoder(SampledView(outs[0])), encoder(SampledView(outs[1])))


def test_an_error_in_the_prefetching_thread_reaches_the_loop() -> None:
    graph = SampledGraph(DENSE, (2,), size=50, seed=0)
    graph.all_seeds = torch.zeros(120, dtype=torch.long)
    with pytest.raises(ValueError, match="different seeds"):
        list(graph.batches(1))
