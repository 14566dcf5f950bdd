import math

import pytest
import torch

from progcl.data.synthetic import csbm
from progcl.graph.views import Graph, View
from progcl.methods.dgi import Dgi
from progcl.training.trainer import Trainer
from support.runs import small

DATA = csbm(nodes=40, degree=8, homophily=0.9, signal=3)


def make() -> tuple[Graph, Dgi]:
    trainer = Trainer(small(method__name="dgi", encoder__layers=1), DATA)
    assert isinstance(trainer.method, Dgi)
    assert isinstance(trainer.graph, Graph)
    return trainer.graph, trainer.method


def test_the_loss_is_its_definition() -> None:
    """Binary cross entropy of σ(hᵀWs), over nodes and corrupted nodes; slow on purpose."""
    graph, method = make()
    generator = method.context.generator("corruption")
    state = generator.get_state()
    loss = method.loss(graph).item()
    generator.set_state(state)
    with torch.no_grad():
        h = method.infomax.encoder(View(graph))
        corrupted = method.infomax.encoder(graph.shuffled(generator))
        summary = torch.sigmoid(h.mean(dim=0))
        total = 0.0
        for positive, negative in zip(h, corrupted, strict=True):
            total -= math.log(1 / (1 + math.exp(-float(positive @ method.infomax.weight @ summary))))
            total -= math.log(1 - 1 / (1 + math.exp(-float(negative @ method.infomax.weight @ summary))))
    assert loss == pytest.approx(total / len(h), rel=1e-4)


def test_the_seed_decides_every_parameter() -> None:
    torch.manual_seed(1)
    first = make()[1].state_dict()
    torch.manual_seed(2)
    second = make()[1].state_dict()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
