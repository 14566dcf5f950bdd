"""A comparison has the scores that its runs would have alone."""

import json
from pathlib import Path

import pytest

from progcl import InputError, fit
from progcl.evaluation.scores import describe_run
from progcl.experiments.compare import compare
from progcl.miners import PROPOSED
from support.runs import small


def test_every_row_is_what_a_run_alone_would_give(tmp_path: Path) -> None:
    config = small(probe__compare=True, probe__splits=1)
    scores = compare(config, tmp_path / "run")
    assert list(scores)[:3] == ["raw features", "propagated features (no training)", "untrained encoder"]
    assert len(scores) == 3 + len(PROPOSED)
    for miner in PROPOSED:
        alone = small(miner__name=miner, probe__splits=1)
        result = fit(alone)
        assert scores[describe_run(alone, result.facts)] == result.score
    stored = json.loads((tmp_path / "run" / "comparison.json").read_text())
    assert stored["raw features"]["accuracies"] == list(scores["raw features"].accuracies)
    assert compare(config, tmp_path / "run", resume=True) == scores


def test_a_comparison_needs_a_protocol(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a protocol"):
        compare(small(probe__protocol="none"), tmp_path / "run")


def test_a_miner_that_mines_from_the_start_does_not_share_its_first_epochs(tmp_path: Path) -> None:
    options = {"start_epoch": 6, "prior": small().miner.prior}  # type: ignore[attr-defined]
    others = {"progcl-weight": options, "progcl-mix": {**options, "hardest": 10, "synthetic": 10}}
    config = small(miner__name="dcl", miner__others=others, probe__compare=True, probe__splits=1)
    scores = compare(config, tmp_path / "run")
    runs = {"GRACE + dcl": "dcl", "GRACE, no mining": "none", "GRACE + progcl-weight": "progcl-weight"}
    for row, miner in runs.items():
        assert scores[row] == fit(small(miner__name=miner, probe__splits=1)).score, row
