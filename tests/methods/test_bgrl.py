import math

import pytest
import torch

from progcl.data.synthetic import csbm
from progcl.graph.views import Graph, View
from progcl.methods.bgrl import Bgrl
from progcl.training.trainer import Trainer
from support.naive import cosine
from support.runs import small

DATA = csbm(nodes=60, degree=10, homophily=0.9, signal=3)


def make(**changes: object) -> tuple[Trainer, Bgrl]:
    config = small(method__name="bgrl", encoder__norm="batch", train__epochs=10, **changes)
    trainer = Trainer(config, DATA)
    assert isinstance(trainer.method, Bgrl)
    return trainer, trainer.method


def test_the_loss_is_its_definition() -> None:
    trainer, method = make(method__drop_edges=[0.0, 0.0], method__drop_features=[0.0, 0.0])
    graph = trainer.graph
    assert isinstance(graph, Graph)
    h = method.predictor(method.encoder(View(graph))).detach()
    t = method.target(View(graph))
    similar = sum(cosine(a, b) for a, b in zip(h, t, strict=True)) / len(h)
    assert method.loss(graph).item() == pytest.approx(2 - 2 * similar, rel=1e-5)


def test_the_learning_rate_rises_and_falls_as_published() -> None:
    """1,000 of 10,000 steps of warm-up, then a cosine."""
    _, method = make()
    assert [method.lr_factor(step / 10_000) for step in (0, 500, 1_000)] == [0.0, 0.5, 1.0]
    for step in (2_000, 5_500, 9_999):
        decay = (1 + math.cos((step - 1_000) * math.pi / 9_000)) / 2
        assert method.lr_factor(step / 10_000) == pytest.approx(decay)


def test_the_trainer_applies_the_schedule() -> None:
    trainer, method = make(method__warmup=0.5)
    optimizer = trainer.optimizer
    assert optimizer is not None
    rates = [optimizer.param_groups[0]["lr"] for _ in trainer.run(10)]
    lr = trainer.config.train.lr
    assert rates == pytest.approx([lr * method.lr_factor(step / 10) for step in range(10)])
    assert isinstance(optimizer, torch.optim.AdamW)


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_the_momentum_of_the_target_rises_to_one(progress: float) -> None:
    _, method = make(method__momentum=0.8)
    before = [old.clone() for old in method.target.parameters()]
    online = list(method.encoder.parameters())
    assert any(not torch.equal(old, new) for old, new in zip(before, online, strict=True))  # other initial parameters
    method.after_step(progress)
    momentum = 1 - 0.2 * (1 + math.cos(math.pi * progress)) / 2
    for old, new, moved in zip(before, online, method.target.parameters(), strict=True):
        torch.testing.assert_close(moved, momentum * old + (1 - momentum) * new)
        assert not moved.requires_grad


def test_an_embedding_is_taken_in_evaluation_mode() -> None:
    """BatchNorm's running statistics serve, and stay."""
    trainer, method = make()
    list(trainer.run(10))
    state = {name: value.clone() for name, value in method.state_dict().items()}
    embeddings = trainer.embed()
    assert method.training
    for name, value in method.state_dict().items():
        assert torch.equal(value, state[name]), name
    with torch.no_grad():
        trained_mode = method.embed(trainer.graph)
    assert not torch.allclose(embeddings, trained_mode, atol=1e-3)
