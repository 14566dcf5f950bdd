"""Scores of networks trained with labels: on the probe's splits, never by a probe, resumed with the same bits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from progcl import InputError, fit
from progcl.cli.main import main
from progcl.config import Config
from progcl.data.splits import make_splits
from progcl.data.synthetic import csbm
from progcl.embed import choose_settings
from progcl.evaluation.scores import describe_run
from progcl.evaluation.supervised import score_predictions
from progcl.experiments.compare import compare
from progcl.graph.loader import GraphInput
from progcl.graph.views import Graph
from progcl.methods import Method
from progcl.training.trainer import Trainer
from support.runs import assert_same_run, fit_interrupted, read_embeddings, read_result, small

DATA = csbm(nodes=200, classes=3, degree=6, features=32, signal=1.5, homophily=0.8, seed=1)


def config(**changes: Any) -> Config:
    return small(**{"method__name": "gcn", "miner__name": "none", "train__epochs": 8, "probe__splits": 2, **changes})


class Guess(Method):
    """Predicts what it is told."""

    def __init__(self, classes: Tensor) -> None:
        torch.nn.Module.__init__(self)
        self.classes = classes

    def predict(self, graph: GraphInput) -> Tensor:
        return self.classes


@pytest.mark.parametrize("nodes", ["all", "rest", "heldout"])
def test_the_score_is_the_share_of_right_test_nodes(nodes: str) -> None:
    probe = config(probe__nodes=nodes).probe
    splits = make_splits(DATA, 2, 0, nodes)
    guesses = torch.randint(3, (len(splits), 200), generator=torch.Generator().manual_seed(0))
    score = score_predictions(Guess(guesses), Graph(DATA), probe)
    assert score.protocol == "supervised"
    for number, split in enumerate(splits):
        right = sum(int(guesses[number, node]) == int(DATA.y[node]) for node in split.test.tolist())
        assert score.accuracies[number] == pytest.approx(100 * right / len(split.test))
    with pytest.raises(ValueError, match=r"shorter|longer"):
        score_predictions(Guess(guesses[:0]), Graph(DATA), probe)


def test_a_run_is_scored_by_its_predictions_not_by_a_probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("progcl.evaluation.scoring.linear_probe", lambda *_, **__: pytest.fail("labels leak"))
    result = fit(config(), data=DATA, out=tmp_path / "run")
    assert result.score is not None
    trainer = Trainer(config(), DATA)
    list(trainer.run(8))
    assert result.score == score_predictions(trainer.method, trainer.graph, config().probe)
    stored = read_result(tmp_path / "run")
    assert stored["score"]["protocol"] == "supervised"
    assert stored["score"]["accuracies"] == list(result.score.accuracies)
    assert np.array_equal(read_embeddings(tmp_path / "run"), trainer.embed().numpy())
    assert result.embeddings.shape == (200, 16)
    assert describe_run(result.config, result.facts) == "GCN (trained with labels)"
    assert fit(config(probe__protocol="none"), data=DATA).score is None


@pytest.mark.parametrize("name", ["gat", "fastgcn"])
def test_a_run_that_stops_early_resumes_with_the_same_bits(name: str, tmp_path: Path) -> None:
    """Also the choice of the best epoch, dropout, and splits that are at their end."""
    options: dict[str, Any] = {"method__name": name, "method__patience": 4, "train__epochs": 40, "train__lr": 0.05}
    options |= {"encoder__dropout": 0.3, "method__drop_attention": 0.3} if name == "gat" else {"method__samples": 20}
    whole = fit(config(**options), data=DATA, out=tmp_path / "whole")
    assert 8 < len(whole.losses) < 40
    fit_interrupted(config(**options), tmp_path / "interrupted", 3, 8, data=DATA)
    assert_same_run(tmp_path / "whole", tmp_path / "interrupted")


def test_splits_are_part_of_the_run(tmp_path: Path) -> None:
    fit(config(), data=DATA, out=tmp_path)
    for change in ({"probe__seed": 1}, {"probe__splits": 1}, {"probe__nodes": "rest"}):
        with pytest.raises(InputError, match=r"the run to resume has `probe\.(seed|splits|nodes)`"):
            fit(config(**change), data=DATA, out=tmp_path, resume=True)
    assert fit(config(probe__protocol="none"), data=DATA, out=tmp_path, resume=True).score is None


def test_no_probe_of_what_labels_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fit(config(data__nodes=60), out=tmp_path)
    with pytest.raises(SystemExit):
        main(["eval", str(tmp_path)])
    assert "error: `gcn` was trained with labels, which a probe of its embedding leaks" in capsys.readouterr().err
    with pytest.raises(InputError, match="`gcn` is trained with labels: no embedding to compare"):
        compare(config(probe__compare=True), tmp_path / "compare")
    with pytest.raises(
        InputError, match="method `gcn` is trained with labels\n\nhint: embeddings here are made without"
    ):
        choose_settings(DATA, {"method.name": "gcn"})
