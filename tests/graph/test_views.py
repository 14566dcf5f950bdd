import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.transforms import HalfHop

from progcl.data.synthetic import csbm
from progcl.graph.sparse import SparseMatrix, propagate
from progcl.graph.views import Graph, View
from progcl.nn.encoders import ENCODERS, GCN

LOOPED = torch.tensor([[0, 1, 2, 2, 3, 3], [1, 2, 0, 1, 3, 0]])  # directed edges, a self-loop, node 4 isolated


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("edges", [LOOPED, csbm(nodes=60, classes=3).edge_index])
def test_a_view_is_pygs_normalization_of_the_masked_edges(edges: torch.Tensor) -> None:
    nodes = max(5, int(edges.max()) + 1)
    graph = Graph(Data(x=torch.ones(nodes, 1), edge_index=edges))
    for seed in range(3):
        mask = torch.rand(edges.size(1), generator=seeded(seed)) < 0.6
        adjacency = View(graph, edge_mask=mask).symmetric
        index, weight = gcn_norm(edges[:, mask], num_nodes=nodes)
        expected = torch.zeros(nodes, nodes).index_put_((index[1], index[0]), weight)
        torch.testing.assert_close(adjacency.csr.to_dense(), expected)
        torch.testing.assert_close(adjacency.transpose.to_dense(), expected.T)


def test_propagation_passes_gradcheck_on_directed_edges() -> None:
    adjacency = View(Graph(Data(x=torch.ones(5, 1), edge_index=LOOPED))).symmetric
    double = SparseMatrix(*(matrix.double() for matrix in adjacency))
    x = torch.randn(5, 4, generator=seeded(0), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: propagate(x, double), (x,))


@pytest.mark.parametrize(("share", "kind"), [(0.05, SparseMatrix), (0.5, torch.Tensor)])
def test_the_first_product_is_the_same_for_sparse_and_dense_features(share: float, kind: type) -> None:
    x = torch.randn(30, 20, generator=seeded(0)) * (torch.rand(30, 20, generator=seeded(1)) < share)
    graph = Graph(Data(x=x, edge_index=LOOPED))
    assert isinstance(graph.features, kind)
    mask = torch.rand(20, generator=seeded(2)) < 0.5
    ours, theirs = (torch.randn(20, 3, generator=seeded(3)).requires_grad_() for _ in range(2))
    outer = torch.randn(30, 3, generator=seeded(4))
    (View(graph, feature_mask=mask).transform(ours) * outer).sum().backward()
    ((x * mask) @ theirs * outer).sum().backward()
    torch.testing.assert_close(View(graph, feature_mask=mask).transform(ours), (x * mask) @ theirs)
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("features", [12, 300])  # dense and sparse
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", ["gcn", "sage", "mlp"])
def test_a_restricted_graph_embeds_as_the_full_one(name: str, layers: int, features: int) -> None:
    data = csbm(nodes=60, classes=3)
    x, chance = (torch.rand(60, features, generator=seeded(seed)) for seed in (0, 1))
    data.x = x * (chance < 12 / features)
    graph, nodes = Graph(data), torch.arange(3, 60, 4)
    assert isinstance(graph.features, SparseMatrix) == (features == 300)
    encoder = ENCODERS[name](features, 8, layers, "relu", seeded(2))
    outer = torch.randn(len(nodes), 8, generator=seeded(3))
    results = []
    for restricted, rows in ((graph.restrict(nodes, (0, 1)), slice(None)), (graph, nodes)):
        encoder.zero_grad()
        out = encoder(restricted.view(0.4, 0.2, seeded(4)))[rows]
        (out * outer).sum().backward()
        results.append([out, *(each.grad for each in encoder.parameters())])
    torch.testing.assert_close(*results)
    second = encoder(graph.restrict(nodes, (1, 2)).view(0.4, 0.2, seeded(4)))
    torch.testing.assert_close(second, results[1][0][len(nodes) // 2 :])


@pytest.mark.parametrize("features", [12, 300])  # dense and sparse
@pytest.mark.parametrize("name", ["gcn", "sage", "mlp"])
def test_a_shuffled_graph_has_all_edges_and_permuted_features(name: str, features: int) -> None:
    data = csbm(nodes=60, classes=3)
    x, chance = (torch.rand(60, features, generator=seeded(seed)) for seed in (0, 1))
    data.x = x * (chance < 12 / features)
    graph = Graph(data)
    assert isinstance(graph.features, SparseMatrix) == (features == 300)
    encoder = ENCODERS[name](features, 8, 2, "relu", seeded(2))
    permutation = torch.randperm(60, generator=seeded(3))
    permuted = View(Graph(Data(x=data.x[permutation], edge_index=data.edge_index)))
    outer = torch.randn(60, 8, generator=seeded(4))
    results = []
    for view in (graph.shuffled(seeded(3)), permuted):
        encoder.zero_grad()
        out = encoder(view)
        (out * outer).sum().backward()
        results.append([out, *(each.grad for each in encoder.parameters())])
    torch.testing.assert_close(*results)
    some = torch.arange(3, 60, 4)
    torch.testing.assert_close(encoder(graph.restrict(some, (0, 1)).shuffled(seeded(3))), results[1][0][some])
    dense = permuted.symmetric.csr.to_dense() @ data.x[permutation]
    weight = torch.randn(features, 3, generator=seeded(5))
    first = graph.shuffled(seeded(3)).layer_input(0, None, last=False)
    torch.testing.assert_close(first.propagate(weight), dense @ weight)


def upsample(data: Data, edge_mask: torch.Tensor, p: float, alpha: float, seed: int) -> Data:
    """PyG's transform of the edges that are left; it draws from the global generator."""
    left = Data(x=data.x, edge_index=data.edge_index[:, edge_mask])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return HalfHop(alpha, p)(left)


@pytest.mark.parametrize("features", [12, 300])  # dense and sparse
@pytest.mark.parametrize(("p", "alpha"), [(1.0, 0.5), (0.5, 0.2), (0.0, 0.5)])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_half_hop_is_pygs_transform_without_the_slow_nodes_embeddings(
    layers: int, p: float, alpha: float, features: int
) -> None:
    data = csbm(nodes=60, classes=3)
    x, chance = (torch.rand(60, features, generator=seeded(seed)) for seed in (0, 1))
    data.x = x * (chance < 12 / features)
    graph, encoder = Graph(data), GCN(features, 8, layers, "elu", seeded(2))
    view = graph.view(0.3, 0.0, seeded(3))
    assert view.edge_mask is not None
    slow = upsample(data, view.edge_mask, p, alpha, seed=4)
    assert (slow.num_nodes > 60) == (p > 0)
    h = slow.x
    for number in range(layers):
        layer = encoder.layers[number]
        conv = GCNConv(layer.in_features, layer.out_features)
        conv.lin.weight, conv.bias = layer.weight, layer.bias
        h = torch.nn.functional.elu(conv(h, slow.edge_index))
    out = encoder(view.half_hop(p, alpha, seeded(4)))
    assert out.shape == (60, 8)
    torch.testing.assert_close(out, h[~slow.slow_node_mask])
    outer = torch.randn(60, 8, generator=seeded(5))
    gradients = [torch.autograd.grad((each * outer).sum(), list(encoder.parameters())) for each in (out, h[:60])]
    torch.testing.assert_close(*gradients)
    some = torch.arange(3, 60, 4)
    restricted = graph.restrict(some, (0, 1)).view(0.3, 0.0, seeded(3)).half_hop(p, alpha, seeded(4))
    torch.testing.assert_close(encoder(restricted), out[some])


def test_slow_nodes_stand_between_added_edges_and_permuted_features() -> None:
    """A slow node is as an added node with two incoming edges, one outgoing edge and mixed features."""
    permutation = torch.tensor([4, 2, 0, 1, 3])
    added = torch.tensor([[0, 1], [4, 3]])
    graph = Graph(Data(x=torch.randn(5, 6, generator=seeded(0)), edge_index=LOOPED))
    view = View(graph, extra_edges=added, permutation=permutation).half_hop(1.0, 0.3, seeded(0))
    x, edges = graph.data.x[permutation], torch.cat([LOOPED, added], dim=1)
    slow = HalfHop(0.3, 1.0)(Data(x=x, edge_index=edges[:, edges[0] != edges[1]]))
    for name in ("gcn", "sage"):
        encoder = ENCODERS[name](6, 4, 2, "elu", seeded(1))
        torch.testing.assert_close(encoder(view), encoder(View(Graph(slow)))[:5])
