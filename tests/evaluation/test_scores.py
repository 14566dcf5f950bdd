"""Scores: their mean and spread, the names of runs, and the table that is printed."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from progcl import InputError
from progcl.evaluation.scores import Score, describe_run, format_table, load_scores, save_scores
from progcl.training.files import write_json
from support.runs import small


def test_a_score_prints_mean_and_standard_deviation() -> None:
    score = Score("clean", (90.0, 92.0))
    assert (score.mean, score.std, str(score)) == (91.0, 1.0, "91.00 ± 1.00")


def test_scores_are_read_back(tmp_path: Path) -> None:
    assert load_scores(tmp_path) == {}
    scores = {"one": Score("clean", (90.0, 92.0)), "other": Score("bgrl", (50.0,))}
    save_scores(scores, tmp_path)
    assert load_scores(tmp_path) == scores


def test_a_run_that_is_compared_with_nothing_has_its_own_score(tmp_path: Path) -> None:
    score = Score("clean", (90.0, 92.0))
    for stored, expected in ((None, {}), (asdict(score), {"this run": score})):
        write_json(tmp_path / "result.json", {"score": stored})
        assert load_scores(tmp_path) == expected
    mistakes: list[dict[str, Any]] = [{"accuracies": [101.0]}, {"accuracies": []}, {"macro_f1": ["high"]}]
    for wrong in [*mistakes, {"protocol": 3}]:
        write_json(tmp_path / "result.json", {"score": {**asdict(score), **wrong}})
        with pytest.raises(InputError, match=r"result\.json.*scores are shares in percent") as error:
            load_scores(tmp_path)
        assert error.value.hint


def test_a_table_names_its_protocol() -> None:
    text = format_table({"short": Score("clean", (90.0, 92.0)), "a longer name": Score("clean", (50.0, 50.0))})
    assert text.splitlines() == [
        "mean ± std of 2 splits, protocol `clean`",
        "                 accuracy",
        "  short          91.00 ± 1.00",
        "  a longer name  50.00 ± 0.00",
    ]


def test_a_table_has_the_largest_class_beside_accuracy_macro_f1_and_auc() -> None:
    score = Score("clean", (90.0, 92.0), (80.0, 82.0), (95.0, 97.0), 62.5, 1234)
    assert format_table({"this run": score}).splitlines() == [
        "mean ± std of 2 splits, protocol `clean`, 1,234 nodes with labels",
        "                            accuracy      macro-F1  ROC-AUC",
        "  this run                  91.00 ± 1.00  81.00     96.00",
        "  always the largest class  62.50",
    ]


def test_a_run_without_a_mixture_is_not_called_mined() -> None:
    config = small()
    assert describe_run(config, {"mixture": {"degenerate": False}}) == "GRACE + progcl-weight"
    for facts in ({}, {"mixture": {"degenerate": True}}):
        assert "no mining" in describe_run(config, facts)
    assert describe_run(small(method__name="bgrl"), {}) == "BGRL"
    assert describe_run(config, {"blocks": ["features", "walks"]}) == "no training: features, walks"
