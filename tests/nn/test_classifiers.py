"""Classifiers against PyG's layers with the same weights; dropout, and the layer before the last."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv
from torch_geometric.utils import add_self_loops

from progcl.config.schema import EncoderConfig
from progcl.data.synthetic import csbm
from progcl.graph.sampled import SampledGraph
from progcl.graph.views import Graph
from progcl.nn.classifiers import Attention, Classifier, GatClassifier, GcnClassifier, SageClassifier, Trunk

DATA = csbm(nodes=40, classes=3, degree=6, features=12, signal=1)
SPARSE = Data(x=DATA.x * (DATA.x > 2), edge_index=DATA.edge_index)
SHAPE = EncoderConfig(layers=3, hidden=8, activation="elu", dropout=0.0)
KINDS = [Classifier, GcnClassifier, SageClassifier, GatClassifier]


def make(kind: type[Classifier], shape: EncoderConfig = SHAPE, **options: Any) -> Any:
    generator, draws = (torch.Generator().manual_seed(seed) for seed in (0, 1))
    options |= {"heads": 4, "output_heads": 2} if kind is GatClassifier else {}
    network: Any = kind(12, 3, shape, generator, draws, **options).eval()
    for layer in network.layers:
        nn.init.normal_(layer.bias, generator=generator)
    return network


def pyg_mlp(network: Any, number: int, x: Tensor, edges: Tensor) -> Tensor:
    layer: nn.Linear = network.layers[number]
    return x @ layer.weight.T + layer.bias


def pyg_gcn(network: Any, number: int, x: Tensor, edges: Tensor) -> Tensor:
    layer = network.layers[number]
    conv = GCNConv(x.size(1), len(layer.bias))
    conv.load_state_dict({"lin.weight": layer.weight, "bias": layer.bias})
    out: Tensor = conv(x, edges)
    return out


def pyg_sage(network: Any, number: int, x: Tensor, edges: Tensor) -> Tensor:
    """The mean is over a node and its neighbors: PyG's layer over edges with self-loops."""
    layer = network.layers[number]
    neighbors, own = layer.weight.chunk(2, dim=1)
    conv = SAGEConv(x.size(1), len(layer.bias))
    conv.load_state_dict({"lin_l.weight": neighbors, "lin_l.bias": layer.bias, "lin_r.weight": own})
    out: Tensor = conv(x, add_self_loops(edges)[0])
    return out


def pyg_gat(network: Any, number: int, x: Tensor, edges: Tensor) -> Tensor:
    """PyG averages heads and then adds one bias: the mean of theirs."""
    layer, attention, is_last = network.layers[number], network.attentions[number], number == 2
    conv = GATConv(x.size(1), attention.out_channels, attention.heads, concat=not is_last)
    bias = layer.bias.view(attention.heads, -1).mean(dim=0) if is_last else layer.bias
    own = {"att_src": attention.att_src, "att_dst": attention.att_dst, "lin.weight": layer.weight, "bias": bias}
    conv.load_state_dict(own)
    out: Tensor = conv(x, edges)
    return out


LAYERS: dict[type[Classifier], Callable[..., Tensor]] = dict(
    zip(KINDS, (pyg_mlp, pyg_gcn, pyg_sage, pyg_gat), strict=True)
)


@pytest.mark.parametrize("data", [DATA, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_network_is_that_of_pyg_with_the_same_weights(kind: type[Classifier], data: Data) -> None:
    network, graph = make(kind), Graph(data)
    x = data.x
    with torch.no_grad():
        for number in (0, 1):
            x = nn.functional.elu(LAYERS[kind](network, number, x, data.edge_index))
        torch.testing.assert_close(graph.embed(Trunk(network)), x)
        x = LAYERS[kind](network, 2, x, data.edge_index)
        torch.testing.assert_close(network(graph.full_view()), x)
        seeds = torch.tensor([3, 4, 20])
        torch.testing.assert_close(network(graph.restrict(seeds).full_view()), x[seeds])


@pytest.mark.parametrize("kind", [Classifier, GcnClassifier, SageClassifier])
def test_all_nodes_are_classified_alike_layer_by_layer(kind: type[Classifier]) -> None:
    network, sampled = make(kind), SampledGraph(DATA, [2, 2, 2], size=10, seed=0)
    torch.testing.assert_close(sampled.embed(network), Graph(DATA).embed(network))
    torch.testing.assert_close(sampled.embed(Trunk(network)), Graph(DATA).embed(Trunk(network)))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_every_parameter(kind: type[Classifier]) -> None:
    network = make(kind, replace(SHAPE, norm="batch")).train()
    network(Graph(SPARSE).full_view()).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all()


def test_the_last_layer_has_neither_norm_nor_activation() -> None:
    network = make(GcnClassifier, replace(SHAPE, activation="relu", norm="batch"))
    out = network(Graph(DATA).full_view())
    assert out.shape == (40, 3)
    assert (out < 0).any()
    assert isinstance(network.norms[-1], nn.Identity)
    assert network.norms[0].momentum == 0.1


@pytest.mark.parametrize("drop_input", [True, False])
def test_dropout_may_begin_after_the_features(drop_input: bool) -> None:
    network, graph = make(Classifier, replace(SHAPE, dropout=0.5), drop_input=drop_input).train(), Graph(DATA)
    first, second = (network.layer(0, graph.full_view().layer_input(0, None, last=False)) for _ in range(2))
    assert torch.equal(first, second) != drop_input
    assert not torch.equal(network(graph.full_view()), network(graph.full_view()))
    network.eval()
    assert torch.equal(network(graph.full_view()), network(graph.full_view()))


def test_attention_is_dropped_at_its_rate_by_a_key() -> None:
    """On a full graph of equal rows every coefficient is 1/N: what is left of their sum is the share that is kept."""
    nodes = 60
    pairs = torch.cartesian_prod(torch.arange(nodes), torch.arange(nodes)).T
    attention = Attention(1, 2, torch.Generator().manual_seed(0))
    x = torch.ones(nodes, 2)
    torch.testing.assert_close(attention(x, pairs), x)
    attention.drop = 0.6, 7
    dropped = attention(x, pairs)
    assert dropped.mean().item() == pytest.approx(1, abs=0.05)
    torch.testing.assert_close(dropped * 0.4 * nodes, (dropped * 0.4 * nodes).round())
    assert torch.equal(attention(x, pairs), dropped)
    attention.drop = 0.6, 8
    assert not torch.equal(attention(x, pairs), dropped)


def test_attention_dropout_only_in_training() -> None:
    network, graph = make(GatClassifier, drop_attention=0.5), Graph(DATA)
    assert torch.equal(network(graph.full_view()), network(graph.full_view()))
    network.train()
    assert not torch.equal(network(graph.full_view()), network(graph.full_view()))
