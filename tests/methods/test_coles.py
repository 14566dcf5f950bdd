"""COLES: its loss from loops over edges, and what it learns."""

import math

import pytest
import torch
from torch import Tensor

from progcl import load_config
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.graph.views import Graph, View
from progcl.methods.coles import Coles, smooth
from progcl.training.trainer import Trainer
from support.runs import small

DATA = csbm(nodes=40, degree=8, homophily=0.9, signal=3)


def make() -> tuple[Graph, Coles]:
    trainer = Trainer(small(method__name="coles", miner__name="none"), DATA)
    assert isinstance(trainer.method, Coles)
    assert isinstance(trainer.graph, Graph)
    return trainer.graph, trainer.method


def naive_trace(h: Tensor, edge_index: Tensor) -> float:
    """Σ_(i,j) hᵢᵀhⱼ / √(dᵢdⱼ) over directed edges without self-loops; slow on purpose."""
    edges = [(i, j) for i, j in edge_index.T.tolist() if i != j]
    degree = [sum(i == node for i, _ in edges) for node in range(len(h))]
    return sum(float(h[i] @ h[j]) / math.sqrt(degree[i] * degree[j]) for i, j in edges)


def test_the_loss_is_its_definition() -> None:
    graph, method = make()
    generator = method.context.generator("negatives")
    state = generator.get_state()
    loss = method.loss(graph).item()
    generator.set_state(state)
    drawn = method.random_graph(40)
    assert drawn.shape == (2, 2 * 2 * 40)
    with torch.no_grad():
        h = method.embed(graph)
        negative, positive = (naive_trace(h, edges) for edges in (drawn, DATA.edge_index))
    assert loss == pytest.approx((0.9 * negative - positive) / 40, rel=1e-4)


def test_negatives_are_drawn_anew() -> None:
    _, method = make()
    assert not torch.equal(method.random_graph(40), method.random_graph(40))


def test_features_are_the_mean_over_hops() -> None:
    adjacency = View(Graph(DATA)).symmetric.csr.to_dense()
    powers = [torch.linalg.matrix_power(adjacency, hop) @ DATA.x for hop in range(4)]
    assert torch.allclose(smooth(DATA, 3), sum(powers, torch.zeros(())) / 4, atol=1e-5)


def test_the_gradient_is_that_of_dense_traces() -> None:
    graph, method = make()
    state = method.context.generator("negatives").get_state()
    method.loss(graph).backward()
    sparse = method.linear.weight.grad
    assert sparse is not None
    method.zero_grad()
    method.context.generator("negatives").set_state(state)
    matrices = []
    for edges in (method.random_graph(40), DATA.edge_index):
        adjacency = torch.zeros(40, 40).index_put_(tuple(edges), torch.ones(edges.size(1)), accumulate=True)
        adjacency.fill_diagonal_(0)
        scale = adjacency.sum(dim=1).rsqrt()
        matrices.append(scale.unsqueeze(1) * adjacency * scale)
    h = method.linear(smooth(DATA, 8))
    ((0.9 * (h.T @ matrices[0] @ h).trace() - (h.T @ matrices[1] @ h).trace()) / 40).backward()
    assert method.linear.weight.grad is not None
    assert torch.allclose(sparse, method.linear.weight.grad, atol=1e-5)


def test_it_learns_what_raw_features_and_an_untrained_copy_do_not_tell() -> None:
    """Raw features and the untrained copy stay below 60 %, 20 epochs reach 75 %."""
    data = csbm(nodes=500, classes=3, degree=5, features=200, signal=2, homophily=0.7, seed=2)
    settings = {"method.name": "coles", "encoder.hidden": 8, "miner.name": "none", "train.lr": 0.01, "train.epochs": 20}
    trainer = Trainer(load_config("csbm", settings, strict=False), data)
    raw, untrained = (linear_probe(vectors, data, splits=5).mean for vectors in (data.x, trainer.embed()))
    list(trainer.run(20))
    learned = linear_probe(trainer.embed(), data, splits=5).mean
    assert max(raw, untrained) < 60
    assert learned > 75, (raw, untrained, learned)
