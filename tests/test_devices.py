"""Every tensor is made on the device of its inputs: encoders, views, samplers and losses under a pretended device."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from progcl import InfoNCE
from progcl.data.synthetic import csbm
from progcl.graph.augmentations import adaptive_rates, edge_unimportance, feature_unimportance, random_edges
from progcl.graph.centrality import CENTRALITIES
from progcl.graph.diffusion import top_ppr_edges
from progcl.graph.hop_features import svd_directions
from progcl.graph.hop_table import HopTable
from progcl.graph.sampled import SampledGraph, SampledView
from progcl.graph.sampler import NeighborSampler
from progcl.graph.views import Graph, View
from progcl.graph.walks import RandomWalker, WalkLoader
from progcl.losses.infonce import OneWay
from progcl.methods import Context
from progcl.methods.walks import DeepWalk
from progcl.miners import MINERS
from progcl.miners.frozen import FrozenPosterior
from progcl.nn.encoders import ENCODERS, NORMS
from progcl.nn.heads import Head, Projector
from progcl.posteriors import Oracle
from support.devices import CPU, DEVICE, DeviceMismatchError, device_of, pretend_device
from support.runs import small

FEATURES = {"dense": 12, "sparse": 300}


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything in this file runs under the mode; batches are loaded in this thread, where the mode sees them."""
    monkeypatch.setattr("progcl.graph.batching.prefetch", lambda load, number: map(load, range(number)))
    with pretend_device():
        yield


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def graph_data(features: int = 12) -> Data:
    """A graph on the device."""
    data = csbm(nodes=60, classes=3, degree=6)
    x, uniform = (torch.rand(60, features, generator=seeded(seed)) for seed in (0, 1))
    data.x = x * (uniform < 12 / features)
    return data.to(DEVICE)


def assert_trains(encoder: nn.Module, view: Any) -> None:
    """Forward and backward stay on the device."""
    out = encoder(view)
    assert device_of(out) == DEVICE
    out.square().sum().backward()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in encoder.parameters())


# The mode itself


def test_a_cpu_tensor_among_device_tensors_is_caught() -> None:
    x = torch.ones(4, 3).to(DEVICE)
    with pytest.raises(DeviceMismatchError, match="add"):
        x[:, 0] + torch.arange(4)
    with pytest.raises(DeviceMismatchError, match="getitem"):
        x[torch.tensor([True, False, True, False])]
    with pytest.raises(DeviceMismatchError, match="cat"):
        torch.cat([x, torch.zeros(1, 3)])
    with pytest.raises(DeviceMismatchError, match="setitem"):
        x[0] = torch.zeros(3)
    with pytest.raises(DeviceMismatchError, match="mul"):
        torch.ones(3) * x.sum()  # a device scalar does not go to the CPU
    with pytest.raises(DeviceMismatchError, match="stack"):
        torch.stack([x.sum(), torch.tensor(1.0)])
    with pytest.raises(DeviceMismatchError, match="numpy"):
        x.numpy()
    with pytest.raises(DeviceMismatchError, match="generator"):
        torch.rand(3, generator=seeded(), device=x.device)
    with pytest.raises(DeviceMismatchError, match="generator"):
        x.normal_(generator=seeded())
    with pytest.raises(DeviceMismatchError, match="generator"):
        torch.rand(3, generator=torch.Generator(x.device))


def test_a_buffer_left_on_the_cpu_is_caught_and_a_moved_one_is_not() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.register_buffer("factor", torch.arange(2.0))

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.linear(x) * self.factor
            return out

    module, x = Scale(), torch.ones(4, 3).to(DEVICE)
    with pytest.raises(DeviceMismatchError, match="mul"):
        module(x)
    assert_trains(module.to(DEVICE), x)
    module.factor = torch.ones(2)
    with pytest.raises(DeviceMismatchError, match="mul"):
        module(x)


def test_a_tensor_made_in_a_custom_backward_is_caught() -> None:
    class Careless(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return grads[0] * torch.ones(3)

    x = torch.ones(3).to(DEVICE).requires_grad_()
    with pytest.raises(DeviceMismatchError, match="mul"):
        Careless.apply(x).sum().backward()  # type: ignore[no-untyped-call]


def test_what_a_real_device_allows_is_allowed() -> None:
    x = torch.ones(4, 3).to(DEVICE)
    assert x.device == DEVICE
    assert not x.is_cpu
    index = torch.arange(4)
    assert index.device == CPU
    assert index.is_cpu
    assert device_of(index.to(x)) == device_of(index.to(x.device)) == device_of(index.cuda()) == DEVICE
    assert device_of(x.cpu()) == CPU
    assert device_of(x) == DEVICE
    for result in (
        x * torch.tensor(2.0),  # CPU scalars may be mixed in
        x + x.new_zeros(3),
        x[torch.arange(2, device=x.device)],
        torch.zeros_like(x).copy_(torch.ones(4, 3)),
        x.topk(2).values,
        x.to(torch.float64),
        torch.rand(3, generator=torch.Generator(x.device).manual_seed(0), device=x.device),
    ):
        assert device_of(result) == DEVICE
    assert x.cpu().numpy().sum() == 12
    assert device_of(torch.from_numpy(x.cpu().numpy()) + torch.ones(3)) == CPU
    assert device_of(torch.ones(3) * torch.ones(3, device="cpu")) == CPU


# Graph inputs and encoders


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_over_the_full_graph(name: str, kind: str, norm: str) -> None:
    graph = Graph(graph_data(FEATURES[kind]))
    encoder = ENCODERS[name](FEATURES[kind], 8, 2, "prelu", seeded(), norm).to(DEVICE)
    assert_trains(encoder, View(graph))
    assert_trains(encoder, graph.view(0.3, 0.2, seeded()))
    assert_trains(encoder, graph.shuffled(seeded()))
    some = graph.restrict(torch.arange(0, 60, 7), (0, 2))
    assert_trains(encoder, some.view(0.3, 0.2, seeded()))
    assert device_of(graph.embed(encoder)) == DEVICE
    assert some.targets is not None
    assert device_of(some.targets) == DEVICE


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("name", ["gcn", "sage", "mlp"])
def test_encoders_over_sampled_batches(name: str, kind: str, replace: bool) -> None:
    inside = torch.arange(0, 60, 2)
    graph = SampledGraph(graph_data(FEATURES[kind]), (3, 2), size=20, seed=0, replace=replace, nodes=inside)
    encoder = ENCODERS[name](FEATURES[kind], 8, 2, "relu", seeded()).to(DEVICE)
    for batch in graph.batches(1):
        assert device_of(batch.seeds) == DEVICE
        assert_trains(encoder, SampledView(batch))
        assert_trains(encoder, batch.view(0.3, 0.2, seeded()))
    assert device_of(graph.embed(encoder)) == DEVICE


def test_mapped_features_stay_on_the_cpu_and_batches_go_to_the_device() -> None:
    data = graph_data()
    mapped = Data(x=data.x.cpu(), edge_index=data.edge_index, mapped=True, row_scale=torch.rand(60))
    graph = SampledGraph(mapped, (3, 2), size=20, seed=0)
    encoder = ENCODERS["sage"](12, 8, 2, "relu", seeded()).to(DEVICE)
    assert_trains(encoder, next(graph.batches(1)).view(0.3, 0.2, seeded()))
    assert device_of(graph.embed(encoder)) == DEVICE
    assert_trains(encoder, Graph(mapped).view(0.3, 0.2, seeded()))


@pytest.mark.parametrize("size", [None, 20])
@pytest.mark.parametrize("walk", [0, 2])
@pytest.mark.parametrize("gram_columns", [2048, 5], ids=["gram", "random projections"])
def test_encoders_over_the_hop_table(
    gram_columns: int, walk: int, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("progcl.graph.hop_features.MAX_GRAM_COLUMNS", gram_columns)
    data = graph_data()
    table = HopTable(data, svd_directions(data.x, 6), hops=[0, 1, 2], walk=walk, size=size)
    encoder = ENCODERS["hops"](18, 8, 2, "elu", seeded()).to(DEVICE)
    batch = next(table.batches(1))
    assert device_of(batch.nodes) == DEVICE
    assert_trains(encoder, batch.view(0.0, 0.2, seeded()))
    assert_trains(encoder, batch.restrict(torch.arange(10), (1, 2)).view(0.0, 0.2, seeded()))
    assert device_of(table.embed(encoder)) == DEVICE
    assert device_of(svd_directions(data.x, 12)) == DEVICE


@pytest.mark.parametrize("head", [Projector, Head])
def test_heads(head: Callable[..., nn.Module]) -> None:
    assert_trains(head(8, 5, seeded()).to(DEVICE), torch.rand(20, 8).to(DEVICE))


@pytest.mark.parametrize("centrality", CENTRALITIES)
def test_adaptive_views(centrality: str) -> None:
    data = graph_data()
    edges, columns = edge_unimportance(data, centrality), feature_unimportance(data, centrality)
    encoder = ENCODERS["gcn"](12, 8, 2, "relu", seeded()).to(DEVICE)
    assert_trains(encoder, Graph(data).view(adaptive_rates(edges, 0.3), adaptive_rates(columns, 0.2), seeded()))


@pytest.mark.parametrize("teleport", [0.1, 1.0])
def test_diffusion_and_extra_edges(teleport: float) -> None:
    data = graph_data()
    graph, encoder = Graph(data), ENCODERS["gcn"](12, 8, 2, "relu", seeded()).to(DEVICE)
    assert_trains(encoder, graph.with_edges(*top_ppr_edges(data, teleport, 8)).view(0.3, 0.2, seeded()))
    view = View(graph, extra_edges=random_edges(graph, 0.2, seeded()))
    for each in (view, view.half_hop(0.5, 0.5, seeded())):
        assert_trains(encoder, each)


@pytest.mark.parametrize("replace", [True, False])
def test_samples_and_walks(replace: bool) -> None:
    data = graph_data()
    sampler = NeighborSampler(data.edge_index, 60, (3, 2), replace)
    for batch in sampler.batches(torch.arange(60, device=DEVICE), 25, seeded()):
        assert device_of(batch.n_id) == device_of(batch.edge_index) == DEVICE
    draws = torch.randint(2**62, (60, 3), generator=seeded()).to(DEVICE)
    assert device_of(sampler.walk(torch.arange(60, device=DEVICE), draws)) == DEVICE


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_batches_of_walks_and_their_loss(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.graph.walks.prefetch", lambda load, number: map(load, range(number)))
    data = graph_data()
    method = DeepWalk(Context(small(method__name="deepwalk"), data, Graph(data), lambda: Graph(data))).to(DEVICE)
    method.loader = WalkLoader(RandomWalker(data.edge_index, 60, p), 40, 10, size=20)
    optimizer = method.optimizer()
    for batch in method.batches(1):
        assert device_of(batch.seeds) == device_of(batch.walks) == device_of(batch.noise) == DEVICE
        loss = method.loss(batch)
        assert device_of(loss) == DEVICE
        loss.backward()
        optimizer.step()


# Loss and miners


Step = Callable[[InfoNCE, Tensor, Tensor], Tensor]


def all_nodes(loss: InfoNCE, h1: Tensor, h2: Tensor) -> Tensor:
    out: Tensor = loss(h1, h2)
    return out


def some_anchors(loss: InfoNCE, h1: Tensor, h2: Tensor) -> Tensor:
    out: Tensor = loss(h1, h2, torch.arange(0, 40, 3, device=DEVICE))
    return out


def two_batches(loss: InfoNCE, h1: Tensor, h2: Tensor) -> Tensor:
    order = torch.randperm(40, generator=seeded()).to(DEVICE)
    first, second = (loss(h1[nodes], h2[nodes], nodes=nodes) for nodes in order.split(20))
    out: Tensor = first + second
    return out


def edges_as_positives(loss: InfoNCE, h1: Tensor, h2: Tensor) -> Tensor:
    ring = torch.arange(40, device=DEVICE)
    pairs = torch.stack([ring, (ring + 2) % 40])
    out: Tensor = loss(h1, positives=pairs) + loss(h2, nodes=ring, positives=pairs)
    return out


def assert_losses(loss: InfoNCE, step: Step) -> None:
    """Steps before, at and after epoch E = 2, which stay on the device and have gradients."""
    loss.to(DEVICE)
    for epoch in range(1, 5):
        loss.set_epoch(epoch)
        h1, h2 = (_clustered(seed).to(DEVICE).requires_grad_() for seed in (2 * epoch, 2 * epoch + 1))
        step(loss, h1, h2).backward()
        for h in (h1, h2):
            assert h.grad is not None
            assert h.grad.isfinite().all()
    if isinstance(loss.miner, FrozenPosterior):
        assert loss.miner.active


def _clustered(seed: int) -> Tensor:
    """Two clusters: similarities with two modes, to which a mixture can be fitted."""
    return torch.eye(6)[torch.arange(40) % 2] + 0.2 * torch.randn(40, 6, generator=seeded(seed))


@pytest.mark.parametrize("step", [all_nodes, some_anchors, two_batches, edges_as_positives])
@pytest.mark.parametrize("fast", [True, False], ids=["closed form", "generic"])
@pytest.mark.parametrize("name", MINERS)
def test_losses_with_every_miner(name: str, fast: bool, step: Step) -> None:
    options = {"start_epoch": 2} if name.startswith("progcl") else {}
    assert_losses(InfoNCE(0.4, MINERS[name](**options), fast=fast), step)


@pytest.mark.parametrize("step", [all_nodes, some_anchors, two_batches])
@pytest.mark.parametrize(
    "options",
    [
        {"variant": "released"},
        {"per_batch": True},
        {"estimator": "gaussian"},
        {"estimator": "random"},
        {"estimator": "tuned"},
        {"estimator": "oracle"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["progcl-weight", "progcl-mix"])
def test_losses_with_every_variant(name: str, options: dict[str, Any], step: Step) -> None:
    if options.get("estimator") == "oracle":
        options = {"estimator": Oracle(torch.arange(40) % 2)}
    assert_losses(InfoNCE(0.4, MINERS[name](start_epoch=2, **options)), step)


@pytest.mark.parametrize("name", MINERS)
def test_losses_in_the_least_memory(name: str) -> None:
    options = {"start_epoch": 2} if name.startswith("progcl") else {}
    assert_losses(InfoNCE(0.4, MINERS[name](**options), block_size=16, memory=0), all_nodes)


@pytest.mark.parametrize("name", MINERS)
def test_losses_of_one_side(name: str) -> None:
    options = {"start_epoch": 2} if name.startswith("progcl") else {}
    assert_losses(OneWay(0.4, MINERS[name](**options)), all_nodes)
