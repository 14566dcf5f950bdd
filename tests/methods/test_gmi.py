"""GMI: its three terms by definition, the drawn pairs against all of them, and what it learns."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import prelu

from progcl import load_config
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.graph.views import Graph, View
from progcl.methods.gmi import Gmi
from progcl.training.trainer import Trainer
from support.runs import small

DATA = csbm(nodes=40, degree=8, homophily=0.9, signal=3)


def make(**options: object) -> tuple[Graph, Gmi]:
    trainer = Trainer(small(method__name="gmi", miner__name="none", encoder__layers=1, **options), DATA)
    assert isinstance(trainer.method, Gmi)
    assert isinstance(trainer.graph, Graph)
    return trainer.graph, trainer.method


def softplus(t: float) -> float:
    return math.log1p(math.exp(t))


def sigmoid(t: float) -> float:
    return 1 / (1 + math.exp(-t))


def naive_information(anchors: Tensor, others: Tensor, theta: Tensor, bias: float, drawn: list[list[int]]) -> float:
    """The mean over nodes, and over nodes and negatives; slow on purpose."""
    total = 0.0
    for i, anchor in enumerate(anchors):
        total += softplus(-sigmoid(float(others[i] @ theta @ anchor) + bias))
        for row in drawn:
            total += softplus(sigmoid(float(others[row[i]] @ theta @ anchor) + bias)) / len(drawn)
    return total / len(anchors)


def test_the_loss_is_its_definition() -> None:
    graph, method = make(method__negatives=2)
    with torch.no_grad():
        method.bias.copy_(torch.tensor([0.2, -0.3]))
    generators = [method.context.generator(name) for name in ("negatives", "pairs")]
    states = [generator.get_state() for generator in generators]
    loss = method.loss(graph).item()
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
    nodes = torch.arange(40)
    rows = [((nodes + torch.randint(1, 40, (40,), generator=generators[0])) % 40).tolist() for _ in range(4)]
    assert all(row[i] != i for row in rows for i in range(40))
    with torch.no_grad():
        h = method.encoder(View(graph))
        projected = DATA.x @ method.encoder.layers[0].weight.T
        neighbors = [projected[DATA.edge_index[0][DATA.edge_index[1] == i]].mean(dim=0) for i in range(40)]
        averaged = prelu(torch.stack(neighbors), method.activation.weight)
        expected = 0.8 * naive_information(h, DATA.x, method.feature_weight, 0.2, rows[:2])
        expected += naive_information(averaged, h, method.neighbor_weight, -0.3, rows[2:])
        expected += method.reconstruction(h).item()
    assert loss == pytest.approx(expected, rel=1e-4)


def naive_reconstruction(h: Tensor) -> float:
    """The authors' loss of all N x N entries; slow on purpose."""
    ones = {(i, j) for i, j in DATA.edge_index.T.tolist()} | {(i, i) for i in range(40)}
    half, total = len(ones) / 2, 0.0
    for i in range(40):
        for j in range(40):
            probability = sigmoid(float(h[i] @ h[j]))
            is_one = (i, j) in ones
            total -= (1600 - half) / half * math.log(probability) if is_one else math.log(1 - probability)
    return total / 1600 * 1600 / (1600 - half)


@pytest.mark.parametrize("pairs", [10_000, 60])
def test_drawn_pairs_estimate_the_loss_of_all(pairs: int) -> None:
    _, method = make(method__pairs=pairs)
    h = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) / 2
    drawn = [method.reconstruction(h).item() for _ in range(400)]
    assert len(set(drawn)) > 300
    assert sum(drawn) / 400 == pytest.approx(naive_reconstruction(h), rel=0.01)


def test_it_learns_what_raw_features_and_an_untrained_copy_do_not_tell() -> None:
    """Raw features and the untrained copy stay below 60 %, 20 epochs reach 75 %."""
    data = csbm(nodes=500, classes=3, degree=6, features=64, signal=1.5, homophily=0.7, seed=2)
    settings = {"method.name": "gmi", "encoder.hidden": 8, "encoder.activation": "prelu", "miner.name": "none"}
    trainer = Trainer(load_config("csbm", settings | {"train.lr": 0.01}, strict=False), data)
    raw, untrained = (linear_probe(vectors, data, splits=5).mean for vectors in (data.x, trainer.embed()))
    list(trainer.run(20))
    learned = linear_probe(trainer.embed(), data, splits=5).mean
    assert max(raw, untrained) < 60
    assert learned > 75, (raw, untrained, learned)
