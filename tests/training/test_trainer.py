"""The trainer's steps, its state, its patience, and what it is trained on."""

from pathlib import Path
from typing import Any

import pytest
import torch

from progcl import Config, InputError, fit
from progcl.data.splits import heldout_split
from progcl.data.synthetic import csbm
from progcl.miners.frozen import FrozenPosterior
from progcl.posteriors.baselines import Oracle
from progcl.training.trainer import Trainer
from support.runs import BATCHES, assert_same_run, fit_interrupted, read_log, small

DATA = csbm(nodes=150, degree=20, homophily=0.95, signal=3)


def scheduled(losses: list[float], patience: int | None, **changes: Any) -> Config:
    method = {"method__name": "support.methods:Scheduled", "method__losses": losses}
    options = {"train__epochs": len(losses), "train__patience": patience, "train__checkpoint_every": 2}
    return small(**method, **options, probe__protocol="none", **changes)


@pytest.mark.parametrize(
    ("losses", "patience", "epochs"),
    [
        ([5, 4, 3, 3, 3, 3, 1], None, 7),
        ([5, 4, 3, 3, 3, 3, 1], 2, 5),  # an equal loss is not lower
        ([5, 4, 3, 3, 3, 3, 1], 3, 6),
        ([5, 4, 3, 3, 3, 3, 1], 4, 7),
        ([1, 2, 3, 4], 1, 2),
        ([1, 2, 0, 3, 4], 2, 5),
    ],
)
@pytest.mark.filterwarnings("ignore:the embedding has collapsed")
def test_patience_ends_a_run_after_so_many_epochs_without_a_lower_loss(
    losses: list[float], patience: int | None, epochs: int
) -> None:
    assert fit(scheduled(losses, patience)).losses == losses[:epochs]


@pytest.mark.parametrize("stop", [1, 4])
@pytest.mark.filterwarnings("ignore:the embedding has collapsed")
def test_patience_counts_the_epochs_before_a_resume(stop: int, tmp_path: Path) -> None:
    config = scheduled([5, 4, 3, 3, 3, 3, 1], patience=2)
    fit(config, out=tmp_path / "whole")
    fit_interrupted(config, tmp_path / "interrupted", stop)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")
    assert len(read_log(tmp_path / "interrupted")) == 5
    assert len(fit(config, out=tmp_path / "whole", resume=True).losses) == 5


def test_the_state_holds_every_generator_and_the_miner() -> None:
    trainer = Trainer(small(train__anchors=20), csbm(nodes=30))
    next(trainer.run(1))
    tensors, _ = trainer.state()
    assert {f"generator.{name}" for name in ("init", "view1", "view2", "anchors")} <= set(tensors)
    assert "method.criterion.miner._extra_state" in tensors


def test_a_step_limit_makes_short_epochs() -> None:
    sizes: list[int] = []
    trainer = Trainer(small(**BATCHES, batch__steps=2), DATA)
    trainer.on_step = lambda loss, nodes: sizes.append(nodes)
    assert len(list(trainer.run(3))) == 3
    assert sizes == [40] * 6


def test_a_loss_that_is_not_finite_ends_the_run() -> None:
    with pytest.raises(InputError, match="the loss of epoch 2 is nan"):
        list(Trainer(scheduled([1.0, float("nan"), 1.0], None), DATA).run(3))


def test_an_oracle_of_inductive_training_has_the_classes_of_the_training_nodes() -> None:
    config = small(data__inductive=True, probe__nodes="heldout", miner__estimator="oracle")
    (miner,) = Trainer(config, DATA).method.miners()
    assert isinstance(miner, FrozenPosterior)
    assert isinstance(miner.estimator, Oracle)
    assert torch.equal(miner.estimator.classes, DATA.y[heldout_split(DATA)[0]])


def test_learning_rates_are_those_of_the_methods_optimizer() -> None:
    trainer = Trainer(small(train__epochs=2), csbm(nodes=60))
    optimizer = trainer.optimizer
    assert optimizer is not None
    optimizer.param_groups[0]["lr"] = 0.123  # not `train.lr`
    next(trainer.run(2))
    assert optimizer.param_groups[0]["lr"] == 0.123
