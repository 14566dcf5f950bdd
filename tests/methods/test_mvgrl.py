"""MVGRL against its formula and PyGCL's, and what it learns."""

import math
from typing import Any

import pytest
import torch
import torch_geometric.nn  # noqa: F401  before the stand-ins, which it would take for the packages
from torch import Tensor

from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.graph.views import Graph, View
from progcl.methods.mvgrl import Mvgrl, cross_view_infomax
from progcl.training.trainer import Trainer
from support.pygcl import stand_in_for_compiled_packages
from support.runs import small

DATA = csbm(nodes=60, degree=10, homophily=0.95, signal=3)


def make(**changes: Any) -> tuple[Graph, Mvgrl]:
    trainer = Trainer(small(method__name="mvgrl", encoder__layers=1, **changes), DATA)
    assert isinstance(trainer.method, Mvgrl)
    assert isinstance(trainer.graph, Graph)
    return trainer.graph, trainer.method


def tensors(n: int = 12, d: int = 5) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    h1, h2, c1, c2 = torch.randn(4, n, d, generator=generator, dtype=torch.float64)
    weight = torch.randn(d, d, generator=generator, dtype=torch.float64)
    return h1, h2, c1, c2, weight, torch.tensor(0.3, dtype=torch.float64)


def naive_infomax(h1: Tensor, h2: Tensor, c1: Tensor, c2: Tensor, weight: Tensor, bias: Tensor) -> float:
    """Binary cross entropy, one node at a time; slow on purpose."""
    total = 0.0
    for nodes, corrupted, other in ((h1, c1, h2), (h2, c2, h1)):
        summary = torch.tensor([1 / (1 + math.exp(-float(column.mean()))) for column in other.T], dtype=other.dtype)
        for positive, negative in zip(nodes, corrupted, strict=True):
            total -= math.log(1 / (1 + math.exp(-float(positive @ weight @ summary + bias))))
            total -= math.log(1 - 1 / (1 + math.exp(-float(negative @ weight @ summary + bias))))
    return total / (4 * len(h1))


def test_the_loss_is_its_definition() -> None:
    loss = cross_view_infomax(*tensors()).item()
    assert loss == pytest.approx(naive_infomax(*tensors()), rel=1e-10)


def test_the_loss_is_that_of_pygcl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a factor of 2 and a constant: its Jensen-Shannon estimate is shifted by log 2 for each expectation."""
    stand_in_for_compiled_packages(monkeypatch)
    models = pytest.importorskip("GCL.models", exc_type=ImportError)
    losses = pytest.importorskip("GCL.losses", exc_type=ImportError)
    h1, h2, c1, c2, weight, bias = tensors()
    contrast = models.DualBranchContrast(losses.JSD(lambda s, h: (h @ weight @ s.T + bias).T), mode="G2L")
    s1, s2 = (h.mean(dim=0, keepdim=True).sigmoid() for h in (h1, h2))
    theirs = contrast(h1=h1, h2=h2, g1=s1, g2=s2, h3=c1, h4=c2).item()
    ours = cross_view_infomax(h1, h2, c1, c2, weight, bias).item()
    assert ours == pytest.approx(theirs / 2 + math.log(2), rel=1e-6)


@pytest.mark.parametrize("sample", [60, 25])
def test_a_step_reads_both_views_with_one_permutation_and_one_sample(sample: int) -> None:
    graph, method = make(method__sample=sample)
    generators = [method.context.generator(name) for name in ("corruption", "sample")]
    states = [generator.get_state() for generator in generators]
    loss = method.loss(graph).item()
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
    order = torch.randperm(60, generator=generators[0])
    nodes = torch.randperm(60, generator=generators[1])[:sample]
    assert method.diffused is not None
    views = (method.encoder, graph), (method.diffusion_encoder, method.diffused)
    with torch.no_grad():
        h1, h2 = (encoder(View(each))[nodes] for encoder, each in views)
        c1, c2 = (encoder(View(each, permutation=order))[nodes] for encoder, each in views)
        expected = cross_view_infomax(h1, h2, c1, c2, method.weight, method.bias).item()
    assert loss == pytest.approx(expected, rel=1e-5)


def test_the_encoders_differ_and_their_outputs_are_added() -> None:
    graph, method = make()
    assert method.diffused is not None
    with torch.no_grad():
        first, second = method.encoder(View(graph)), method.diffusion_encoder(View(method.diffused))
        assert not torch.equal(first, method.diffusion_encoder(View(graph)))
        torch.testing.assert_close(method.embed(graph), first + second)


def test_another_graph_has_its_own_diffusion() -> None:
    """Also after `release`, and the graph of training keeps its own."""
    graph, method = make()
    with torch.no_grad():
        own = method.embed(graph)
        other = method.embed(Graph(csbm(nodes=40, degree=8, seed=3)))
        assert other.shape == (40, 16)
        assert torch.equal(method.embed(graph), own)
        method.release()
        assert method.diffused is None
        assert torch.equal(method.embed(Graph(DATA)), own)


def test_the_seed_decides_every_parameter() -> None:
    torch.manual_seed(1)
    first = make()[1].state_dict()
    torch.manual_seed(2)
    second = make()[1].state_dict()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_it_learns_what_raw_features_and_an_untrained_copy_do_not_tell() -> None:
    data = csbm(nodes=500, classes=3, degree=6, features=128, signal=1.7, homophily=0.8, seed=2)
    settings = {"encoder__layers": 1, "encoder__hidden": 64, "encoder__activation": "prelu", "train__lr": 0.005}
    trainer = Trainer(small(method__name="mvgrl", train__weight_decay=0.0, **settings), data)
    raw, untrained = (linear_probe(vectors, data, splits=5).mean for vectors in (data.x, trainer.embed()))
    list(trainer.run(150))
    learned = linear_probe(trainer.embed(), data, splits=5).mean
    assert raw < 65
    assert untrained < 80
    assert learned > 87, (raw, untrained, learned)  # 62.8, 75 and 91
