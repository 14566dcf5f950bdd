import json
from pathlib import Path

import pytest

from progcl import InputError, fit
from progcl.evaluation.scores import Score, label, table
from progcl.experiments.compare import compare
from progcl.miners import PROPOSED
from support.runs import small


def test_every_row_is_what_a_run_alone_would_give(tmp_path: Path) -> None:
    config = small(probe__compare=True)
    scores = compare(config, tmp_path / "run")
    assert list(scores)[:3] == ["raw features", "propagated features (no training)", "untrained encoder"]
    assert len(scores) == 3 + len(PROPOSED)
    for miner in PROPOSED:
        alone = small(miner__name=miner)
        result = fit(alone)
        assert scores[label(alone, result.mixture)] == result.score
    stored = json.loads((tmp_path / "run" / "comparison.json").read_text())
    assert stored["raw features"]["accuracies"] == list(scores["raw features"].accuracies)
    assert compare(config, tmp_path / "run", resume=True) == scores


def test_a_table_names_its_protocol() -> None:
    text = table({"short": Score("clean", (90.0, 92.0)), "a longer name": Score("clean", (50.0, 50.0))})
    assert text.splitlines() == [
        "accuracy, mean ± std of 2 splits, protocol `clean`",
        "  short          91.00 ± 1.00",
        "  a longer name  50.00 ± 0.00",
    ]


def test_a_miner_without_a_mixture_is_not_given_the_credit() -> None:
    config = small()
    assert label(config, {"degenerate": False}) == "GRACE + progcl-weight"
    for mixture in (None, {"degenerate": True}):
        assert "no mining" in label(config, mixture)


def test_a_comparison_needs_a_protocol(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a protocol"):
        compare(small(probe__protocol="none"), tmp_path / "run")


def test_a_miner_that_works_from_the_start_does_not_lend_its_first_stage(tmp_path: Path) -> None:
    scores = compare(small(miner__name="dcl", probe__compare=True), tmp_path / "run")
    assert "GRACE + dcl" in scores
    plain = fit(small(miner__name="none"))
    assert plain.score == scores["GRACE, no mining"]
