"""Scores of several embeddings: the order, the time, and what is kept."""

from typing import Any

import pytest
import torch

from progcl.config.schema import ProbeConfig
from progcl.data.synthetic import csbm
from progcl.evaluation import scoring
from progcl.evaluation.scores import Score
from progcl.evaluation.scoring import limit_seconds, score_each, untrained_part

DATA = csbm(nodes=60, classes=3)


class Probe:
    """A probe whose splits take a number of seconds each on a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.time, self.seconds = 0.0, seconds

    def __call__(self, vectors: Any, data: Any, **options: Any) -> Score:
        deadline = self.time + options["seconds"]
        accuracies: tuple[float, ...] = ()
        while len(accuracies) < options["splits"] and (not accuracies or self.time + self.seconds < deadline):
            self.time += self.seconds
            accuracies += (50.0,)
            options["on_split"](Score("clean", accuracies))
        return Score("clean", accuracies)


@pytest.mark.parametrize(
    ("seconds", "splits"),
    [(1000.0, [5, 5, 5]), (100.0, [3, 3, 3]), (25.0, [1, 1]), (10.0, [1]), (1.0, [1])],
)
def test_time_is_shared_and_no_row_has_more_splits_than_the_first(
    seconds: float, splits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    probe, kept = Probe(10.0), list[dict[str, Score]]()
    monkeypatch.setattr(scoring, "linear_probe", probe)
    vectors = {name: lambda: torch.ones(60, 2) for name in ("own", "raw", "hops")}
    scores = score_each(vectors, DATA, ProbeConfig(splits=5), kept.append, seconds, clock=lambda: probe.time)
    assert [len(score.accuracies) for score in scores.values()] == splits
    assert kept[-1] == scores
    assert len(kept) == sum(splits)


def test_the_limit_is_the_time_of_training_but_not_too_short() -> None:
    limits = [limit_seconds(ProbeConfig(limit=limit), 100.0) for limit in (1.0, 0.5, 0.1, 0.0, None)]
    assert limits == [100.0, 50.0, 30.0, 30.0, float("inf")]


def test_the_part_that_needed_no_training_is_what_stands_beside_the_learned_columns() -> None:
    vectors = torch.arange(12.0).reshape(2, 6)
    (made,) = untrained_part(vectors, {"learned columns": 4}).values()
    assert made().equal(vectors[:, 4:])
    for facts in ({}, {"learned columns": 0}, {"learned columns": 6}):  # another method, nothing learned, nothing else
        assert untrained_part(vectors, facts) == {}
