"""Collapse, mining that did nothing, and harm are noticed; healthy runs have no warning."""

import html
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from progcl.cli.main import main
from progcl.errors import ProgclWarning
from progcl.evaluation.health import describe_collapse, describe_harm, describe_mixture, list_warnings
from progcl.evaluation.scores import Score
from progcl.run import fit
from progcl.training.trainer import Trainer
from support.runs import small

RNG = np.random.default_rng(0)
NORMAL: Any = RNG.normal(size=(500, 16))
COLLAPSED: dict[str, Any] = {
    "one point": np.ones((50, 4)),
    "one direction": RNG.uniform(0.1, 5, (500, 1)) * np.ones(8),
    "two opposite directions": RNG.normal(size=(500, 1)) * np.ones(8),
    "a large common part": NORMAL + 100.0,
    "zeros": np.zeros((50, 4)),
}
HEALTHY: dict[str, Any] = {
    "normal": NORMAL,
    "positive": np.abs(NORMAL),
    "a common part": NORMAL + 1.0,
    "two groups": np.repeat(np.eye(2), 50, axis=0) + 0.01,
    "a few outliers of a collapse": np.concatenate([np.ones((60, 4)), RNG.normal(size=(40, 4))]),
    "two nodes": np.ones((2, 3)),
    "one number": RNG.normal(size=(50, 1)),
}


@pytest.mark.parametrize("name", COLLAPSED)
def test_a_collapse_is_noticed(name: str) -> None:
    (text,) = describe_collapse(COLLAPSED[name].astype(np.float32))
    assert text.startswith("the embedding has collapsed")
    assert "try a smaller --train.lr" in text


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_embedding_has_no_warning(name: str) -> None:
    assert describe_collapse(HEALTHY[name].astype(np.float32)) == []


def test_a_degenerate_mixture_is_plain_infonce() -> None:
    (text,) = describe_mixture({"degenerate": True, "unimodal": True})
    assert text.startswith("this run is plain InfoNCE")
    assert "--miner.start_epoch" in text
    (text,) = describe_mixture({"degenerate": False, "unimodal": True})
    assert "tells little" in text
    assert describe_mixture({"degenerate": False, "unimodal": False}) == describe_mixture({}) == []


def test_harm_is_a_score_below_the_features_on_the_same_splits() -> None:
    raw = Score("clean", (80.0, 82.0, 81.0))
    rows = {
        "worse": Score("clean", (78.0, 80.0, 79.2)),
        "interrupted, worse": Score("clean", (78.0,)),
        "better": Score("clean", (84.0, 83.0, 85.0)),
        "hardly worse": Score("clean", (79.8, 81.7, 80.9)),
        "worse by chance": Score("clean", (70.0, 89.0, 80.0)),
        "features of up to 8 hops (no training)": Score("clean", (60.0, 60.0, 60.0)),
        "untrained encoder": Score("clean", (60.0, 60.0, 60.0)),
    }
    texts = describe_harm({**rows, "raw features": raw})
    assert [text.split(" scores ")[0] for text in texts] == ["worse", "interrupted, worse"]
    assert texts[0].startswith("worse scores 79.07, below raw features, 81.00: try --output.blocks own")
    assert describe_harm(rows) == []
    hops = Score("clean", (83.0, 84.0, 82.5))
    texts = describe_harm({**rows, "raw features": raw, "features of up to 8 hops (no training)": hops})
    found = [text.split(": ")[0] for text in texts]
    assert found[0] == "worse scores 79.07, below features of up to 8 hops (no training), 83.17"
    assert [text.split(" scores ")[0] for text in texts] == ["worse", "interrupted, worse", "hardly worse"]
    assert texts[1].split(": ")[0] == "interrupted, worse scores 78.00, below raw features, 81.00"
    assert describe_harm({"this run": raw}) == []


def test_all_warnings_together() -> None:
    scores = {"own": Score("clean", (50.0,)), "raw features": Score("clean", (90.0,))}
    assert len(list_warnings(COLLAPSED["zeros"], {"mixture": {"degenerate": True}}, scores)) == 3
    assert list_warnings(NORMAL, {}, {}) == []


def test_a_heterophilous_graph_warns() -> None:
    with pytest.warns(ProgclWarning, match="links hardly tell classes .*: compare with --output.blocks"):
        fit(small(miner__name="none", data__homophily=0.05, train__epochs=1, probe__protocol="none"))


@pytest.mark.filterwarnings("default:.*scores .*, below raw features", "default:the embedding has collapsed")
def test_what_is_wrong_is_on_stderr_and_in_the_report(
    user_graph: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    embed = Trainer.embed

    def collapse(trainer: Trainer) -> torch.Tensor:
        embed(trainer)
        return 1 + 0.01 * torch.rand(240, 4, generator=torch.Generator().manual_seed(0))

    monkeypatch.setattr(Trainer, "embed", collapse)
    quick = ["--train.epochs=1", "--encoder.hidden=8", "--probe.splits=2"]
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "out", *quick])
    report = html.unescape(Path("out/report.html").read_text())
    for text in (capsys.readouterr().err, report):
        assert "the embedding has collapsed" in text
        assert "below raw features" in text


def test_a_healthy_run_has_no_warning(user_graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--train.epochs=2", "--encoder.hidden=8", "--probe.splits=2"]
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "out", *quick])
    assert "warning:" not in capsys.readouterr().err
    report = html.unescape(Path("out/report.html").read_text())
    for text in ("collapsed", "plain InfoNCE", "below the features", "hardly tell"):
        assert text not in report
