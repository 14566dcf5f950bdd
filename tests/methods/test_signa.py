"""SIGNA learns from edges what features alone do not tell."""

import pytest
import torch

from progcl import load_config
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.methods.signa import Signa
from progcl.training.trainer import Trainer


def test_it_learns_what_raw_features_and_an_untrained_copy_do_not_tell() -> None:
    data = csbm(nodes=500, classes=3, degree=16, features=24, signal=1.5, homophily=0.9, seed=2)
    settings = {"encoder.name": "mlp", "encoder.norm": "layer", "encoder.norm_last": True, "encoder.init": "torch"}
    settings |= {"method.name": "signa", "encoder.activation": "prelu", "encoder.dropout": 0.4, "encoder.hidden": 32}
    settings |= {"train.lr": 2e-3, "train.weight_decay": 0.0, "train.epochs": 60, "probe.protocol": "none"}
    trainer = Trainer(load_config("csbm", settings), data)
    raw, untrained = (linear_probe(vectors, data, splits=5).mean for vectors in (data.x, trainer.embed()))
    list(trainer.run(60))
    learned = linear_probe(trainer.embed(), data, splits=5).mean
    assert raw < 72
    assert learned > max(raw, untrained) + 4, (raw, untrained, learned)


def test_dropped_edges_are_negatives(monkeypatch: pytest.MonkeyPatch) -> None:
    data = csbm(nodes=60)
    kept = []
    trainer = Trainer(load_config("csbm", {"method.name": "signa", "method.drop_positives": 0.7}), data)
    assert isinstance(trainer.method, Signa)
    forward = trainer.method.criterion.forward

    def record(h: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
        kept.append(positives.size(1) / data.edge_index.size(1))
        return forward(h, positives)

    monkeypatch.setattr(trainer.method.criterion, "forward", record)
    list(trainer.run(20))
    assert abs(sum(kept) / 20 - 0.3) < 0.02
    assert len(set(kept)) > 5
